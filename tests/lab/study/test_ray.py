"""The study on a Ray cluster of two nodes, one of which is lost."""

from pathlib import Path

import pytest

WHY = "ray is not installed: pip install 'csprop-lab[ray]'"
pytestmark = pytest.mark.slow
cluster_utils = pytest.importorskip("ray.cluster_utils", reason=WHY)

from csprop.cli.main import main  # noqa: E402
from csprop_lab.study import engine  # noqa: E402
from csprop_lab.study.job import csp  # noqa: E402
from csprop_lab.study.results import Results  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def test_what_a_lost_node_had_is_run_again_and_counted_once(tmp_path: Path) -> None:
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=1)
    jobs = [csp("parity", "rotor", seed, samples=200, epochs=20, width=8) for seed in range(6)]
    work = [("tiny", [job]) for job in jobs]
    results = Results(tmp_path)
    try:
        for number, (table, rows) in enumerate(engine.ray(work, cluster.address)):
            results.add(table, rows)
            if number == 0:
                cluster.remove_node(lost, allow_graceful=False)
    finally:
        cluster.shutdown()
    assert sorted(results.rows) == sorted(job.key for job in jobs)
    assert len(Results(tmp_path).tables["tiny"]) == len(jobs)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "ray://127.0.0.1:1"])
def test_an_address_where_nobody_answers(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--quick", "--engine", "ray", "--address", address, "--out", str(tmp_path)]
    assert main(["reproduce", *argv]) == 2
    assert f"--address {address}: no Ray cluster answers there" in capsys.readouterr().err
