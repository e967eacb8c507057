"""Makes the zoo again: a certified run of every task of `csprop tasks` of which a proof can exist.

    .venv/bin/python docs/figures/zoo.py [NAME ...]

Each is trained by the preset that suits its task, with the first seed that leads to a proof, and
certified. CHANGED has the options of those that need others, and LEARNED those that are learned
instead, because training finds no proof. A run whose weights and certificate come out as they are is
left alone: only the measured seconds would differ. All of them take some minutes on one core.
"""

import io
import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import csprop
from csprop import Run
from csprop.errors import InputError
from csprop.tasks import catalogue
from csprop.training.checkpoint import CERTIFICATE, FILES, LAST, LOCKED, MANIFEST, WEIGHTS, RunFolder
from csprop.zoo.archive import INDEX, PREFIX, Entry

ASSETS = Path(csprop.__file__).parent / "zoo" / "assets"
FAMILIES = ("flip-flop-language-98", "group-S5-32", "group-A5-all")
"""One task of each family that `csprop tasks` names below its table."""
CHANGED: dict[str, dict[str, Any]] = {"group-C60": {"length": 40, "short_first": 50}}
LEARNED: dict[str, dict[str, Any]] = {"nested-3": {"samples": 20000}}
SEEDS = range(5)


def names() -> list[str]:
    """The tasks of the zoo, in the order of `csprop tasks`."""
    return [*(task.name for task in catalogue() if task.total), *FAMILIES]


def made(name: str) -> tuple[Run, Entry]:
    """A certified run of a task, and what the index says of it."""
    options = CHANGED.get(name) or LEARNED.get(name) or {}
    for seed in SEEDS:
        if name in LEARNED:
            run = csprop.learn(name, seed=seed, progress=False, **options).run
        else:
            run = csprop.train(name, seed=seed, progress=False, as_trained=True, **options)
            run.certify(progress=False)
        if run is not None and run.certificate is not None and run.certificate.proven:
            return run, entry(run, options)
    raise SystemExit(f"{name}: no seed leads to a proof")


def entry(run: Run, options: dict[str, Any]) -> Entry:
    """What the index says of a run."""
    certificate, automaton = run.certificate, run.automaton
    assert certificate is not None
    assert automaton is not None
    return {
        "name": run.task.name,
        "states": len(automaton),
        "counters": getattr(automaton, "counters", 0),
        "verdict": certificate.verdict,
        "made": run.made,
        "preset": run.config.preset,
        "seed": run.config.seed,
        "options": options,
    }


def packed(folder: RunFolder) -> bytes:
    """A run directory as an archive, without what a resume needs; equal files make equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in filter(folder.has, (*FILES, MANIFEST)):
            if name != LAST:
                date = zipfile.ZipInfo(name)  # of 1980
                date.external_attr, date.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
                archive.writestr(date, (folder.path / name).read_bytes())
    return content.getvalue()


def same(name: str, folder: RunFolder) -> bool:
    """Whether the zoo has these weights and this certificate."""
    try:
        old, new = RunFolder(f"{PREFIX}{name}").digests(), folder.digests()
    except (InputError, OSError):
        return False
    return all(old.get(each) == new[each] for each in (WEIGHTS, LOCKED, CERTIFICATE))


def main(wanted: list[str]) -> None:
    index = ASSETS / INDEX
    entries = {each["name"]: each for each in json.loads(index.read_text())} if index.exists() else {}
    for name in wanted or names():
        run, entries[name] = made(name)
        with tempfile.TemporaryDirectory() as folder:
            run.save_pretrained(folder)
            content = packed(RunFolder(folder))
            kept = same(name, RunFolder(folder))
        if not kept:
            (ASSETS / f"{name}.zip").write_bytes(content)
        listed = [entries[each] for each in names() if each in entries]
        index.write_text(json.dumps(listed, indent=2) + "\n")
        print(name, f"{len(content) / 1000:.0f} kB", "as before" if kept else "written", flush=True)
    for path in ASSETS.glob("*.zip"):
        if path.stem not in entries:
            path.unlink()
    total = sum(path.stat().st_size for path in ASSETS.iterdir())
    print(f"{len(entries)} runs, {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
