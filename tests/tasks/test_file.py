import hashlib
import json
import os
from pathlib import Path

import pytest
import torch

from csprop import tasks
from csprop.data import formats
from csprop.data.formats import FileReader
from csprop.errors import InputError
from csprop.tasks import FileTask, from_file


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_jsonl_with_strings_lists_and_per_step_labels(tmp_path: Path) -> None:
    rows = [
        {"sequence": "ab", "label": "yes"},
        {"sequence": ["a", "b", "a"], "label": "no"},
        {"sequence": "b", "label": ["no"]},
        {"sequence": "aab", "label": ["no", "yes", "yes"]},
    ]
    task = from_file(written(tmp_path, "d.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n"))
    assert (task.name, task.vocab, task.classes) == ("d", ("a", "b"), ("no", "yes"))
    assert task.data.tokens.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert task.data.labels.tolist() == [[-1, 1, -1], [-1, -1, 0], [0, -1, -1], [0, 1, 1]]
    assert torch.equal(task.data.padded().answers, task.data.labels >= 0)
    assert task.data.lengths.tolist() == [2, 3, 1, 3]
    assert not task.words


@pytest.mark.parametrize(("name", "comma"), [("d.csv", ","), ("d.tsv", "\t")])
@pytest.mark.parametrize("heading", [True, False])
def test_tables(tmp_path: Path, name: str, comma: str, heading: bool) -> None:
    lines = [["sequence", "label"]] * heading + [["0110", "10"], ["1", "9"]]
    task = from_file(written(tmp_path, name, "\n".join(comma.join(line) for line in lines)))
    assert (task.vocab, task.classes) == (("0", "1"), ("9", "10"))
    assert task.data.labels.amax(dim=1).tolist() == [1, 0]


def test_words_anywhere_mean_words_everywhere(tmp_path: Path) -> None:
    content = '"open close",ok\nopen,bad\n'
    task = from_file(written(tmp_path, "d.csv", content))
    assert (task.vocab, task.words) == (("close", "open"), True)
    assert from_file(written(tmp_path, "e.csv", "open,bad\n"), like=task).data.tokens.tolist() == [[1]]
    rows = '{"sequence": ["open", "close"], "label": 1}\n{"sequence": "open", "label": 0}\n'
    assert from_file(written(tmp_path, "d.jsonl", rows)).vocab == ("close", "open")


def test_labels_that_look_alike_are_one_class(tmp_path: Path) -> None:
    rows = ['{"sequence": "a", "label": 1}', '{"sequence": "b", "label": "1"}']
    rows += ['{"sequence": "c", "label": true}', '{"sequence": "aa", "label": "true"}']
    assert from_file(written(tmp_path, "d.jsonl", "\n".join(rows))).classes == ("1", "true")


BAD_JSONL = [
    ("", "d.jsonl: has no rows"),
    (
        '{"sequence": "a", "label": 1}\n{"sequence"',
        "row 2: is not JSON: expecting ':' delimiter at column 12: write",
    ),
    ("[1, 2]", r"row 1: is not a JSON object: write {\"sequence\""),
    ('{"sequence": "a"}', r"row 1: has no 'label'; it has 'sequence': write {\"sequence\""),
    (
        '{"sequence": "a", "lable": 1}',
        r"row 1: has no 'label', but 'lable': did you mean 'label'\? Write {\"sequence\"",
    ),
    ("{'sequence': 'a', 'label': 1}", "row 1: is not JSON: expecting property name"),
    ('{"sequence": "", "label": 1}\n{"sequence": "a", "label": 0}', "row 1: .* is empty"),
    ('{"sequence": 7, "label": 1}', "row 1: the sequence must be a string or a list"),
    ('{"sequence": "a", "label": 1.5}', "row 1: the label 1.5 must be a string or a"),
    ('{"sequence": "abc", "label": [1, 0]}', "row 1: 2 labels for 3 tokens"),
    ('{"sequence": "a", "label": 1}\n{"sequence": "b", "label": 1}', "every label is '1'"),
    ('{"sequence": "a\\ud800", "label": 1}', "row 1: .* has unprintable characters"),
    ('{"sequence": "a", "label": "x\\ny"}', "row 1: .* has unprintable characters"),
    ('{"sequence": "a", "label": NaN}', "row 1: the label nan must be a string"),
    ('{"sequence": ["a", 1e3], "label": 1}', "row 1: the token 1000.0 must be"),
    ('{"sequence": ["a", ""], "label": 1}', "row 1: the token is empty"),
    ('{"sequence": "ab", "label": [1, [0]]}', r"row 1: the label \[0\] must be"),
    ('{"sequence": "a", "label": ' + "9" * 5000 + "}", "row 1: is not JSON: a number has thous"),
    ("[" * 200_000, "row 1: is not JSON: it is nested too deeply: write"),
    ('{"sequence": "a", "label": 1},\n', "row 1: is not JSON: extra data at column 30: write"),
]
BAD_FILES = [
    *(("d.jsonl", *each) for each in BAD_JSONL),
    ("d.csv", "sequence,label\n", "d.csv: has no rows"),
    ("d.csv", "a,1\nb,1\n", "every label is '1'"),
    ("d.csv", "a\x00b,1\nb,2\n", r"row 1: the token '\\x00' has unprintable"),
    ("d.csv", '"a\nb\n,1\n', "d.csv row 1: has 1 columns: write two"),
    ("d.csv", "   ,1\nb,2\n", "d.csv row 1: the sequence is empty"),
    ("d.csv", "a,1\nb,2,3\n", "d.csv row 2: has 3 columns: write two"),
    ("d.csv", "a,\nb,2\n", "d.csv row 1: the label is empty"),
    ("d.tsv", "a,1\n", "d.tsv row 1: has 1 columns"),
    ("d.txt", "a,1\n", r"d.txt: the name must end in .jsonl, .csv or .tsv"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_FILES)
def test_bad_files_are_refused_by_row(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        from_file(written(tmp_path, name, content))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value).removeprefix(str(tmp_path))) < 200


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        from_file(tmp_path / "none.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        from_file(tmp_path / "folder.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(InputError, match="cannot be read: it is not a regular file"):
        from_file(tmp_path / "pipe.jsonl")
    with pytest.raises(InputError, match="cannot be read: no file can have this name"):
        from_file("a\0b.jsonl")
    (tmp_path / "binary.csv").write_bytes(b"a,1\n\xff\xfe,2\n")
    with pytest.raises(InputError, match="byte 4 is not UTF-8 text"):
        from_file(tmp_path / "binary.csv")


def test_invalid_text_far_into_a_file_is_found_at_its_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BLOCK", 100)
    content = b'{"sequence": "01", "label": 1}\n' * 100
    (tmp_path / "d.jsonl").write_bytes(content + b'{"sequence": "\xe9')
    with pytest.raises(InputError, match=f"byte {len(content) + 14} is not UTF-8 text"):
        from_file(tmp_path / "d.jsonl")


ROWS = [("01é", "ä"), ("1", "b"), ("10", "ä"), ("é", "b")]


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.tsv"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_marks_ends_of_lines_and_blocks_change_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    end: str,
    last: bool,
    mark: bytes,
    block: int,
) -> None:
    monkeypatch.setattr(formats, "BLOCK", block)
    monkeypatch.setattr(formats, "ROWS", 3)
    lines = [json.dumps({"sequence": sequence, "label": label}) for sequence, label in ROWS]
    if not name.endswith("jsonl"):
        lines = [("," if name == "d.csv" else "\t").join(row) for row in ROWS]
    content = end.join([lines[0], "", *lines[1:]]) + end * last
    (tmp_path / name).write_bytes(mark + content.encode())
    task = from_file(tmp_path / name)
    assert (task.vocab, task.classes) == (("0", "1", "é"), ("b", "ä"))
    assert task.data.tokens.tolist() == [[0, 1, 2], [1, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert task.data.last.tolist() == [1, 0, 1, 0]
    assert [task.line(row) for row in range(4)] == [1, 3, 4, 5]
    assert task.sha256 == hashlib.sha256(content.encode()).hexdigest()
    again = FileTask(task.path, task.sha256, task.vocab, task.classes, task.words)
    assert torch.equal(again.data.tokens, task.data.tokens)


def test_a_sequence_of_200_000_tokens_is_read_from_every_format(tmp_path: Path) -> None:
    long = "01" * 100_000
    for name, line in (
        ("d.jsonl", json.dumps({"sequence": long, "label": "a"}) + '\n{"sequence": "0", "label": "b"}'),
        ("d.csv", f"{long},a\n0,b\n"),
        ("w.csv", f"{' '.join(long)},a\n0,b\n"),
    ):
        task = from_file(written(tmp_path, name, line))
        assert task.data.lengths.tolist() == [200_000, 1]
        assert len(task.data.flat_tokens) == 200_001


def test_a_known_vocabulary_rejects_what_it_does_not_have(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", "ab,yes\nax,no\n")
    like = FileTask(path, "", ("a", "b"), ("no", "yes"), words=False)
    sentence = "row 2: token 'x' at position 2 is not in the vocabulary: write a, b"
    with pytest.raises(InputError, match=sentence):
        from_file(path, like)
    like = FileTask(path, "", ("a", "b", "x"), ("no", "maybe"), words=False)
    with pytest.raises(InputError, match="row 1: the label 'yes' is unknown: write no, maybe"):
        from_file(path, like)


@pytest.mark.parametrize("heading", ["Sequence,Label", "\nsequence,label", " sequence , LABEL "])
def test_a_heading_is_never_data(tmp_path: Path, heading: str) -> None:
    task = from_file(written(tmp_path, "d.csv", f"{heading}\n01,a\n1,b\n"))
    assert (task.vocab, task.classes) == (("0", "1"), ("a", "b"))
    with pytest.raises(InputError, match="row 1: the columns are in the wrong order"):
        from_file(written(tmp_path, "d.csv", "label,sequence\na,01\nb,1\n"))


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", "ab,yes\naa,no\n")
    task = from_file(path)
    task = FileTask(path, task.sha256, task.vocab, task.classes, task.words)
    assert len(task.data) == 2
    task = FileTask(path, task.sha256, task.vocab, task.classes, task.words)
    for content in ("ab,no\naa,yes\n", "not a row\n"):
        path.write_text(content)
        with pytest.raises(InputError, match="has changed since training"):
            _ = task.data


def test_a_file_that_changes_while_it_is_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "d.csv", "ab,yes\naa,no\n")
    task, first = from_file(path), FileReader.to_end

    def read_then_change(reader: FileReader) -> FileReader:
        first(reader)
        path.write_text("ab,no\naa,yes\n")
        return reader

    task = FileTask(path, task.sha256, task.vocab, task.classes, task.words)
    monkeypatch.setattr(FileReader, "to_end", read_then_change)
    with pytest.raises(InputError, match="has changed since training"):
        len(task.data)


def test_a_file_of_another_ending_is_not_called_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("rows.txt", "parity"):
        Path(name).write_text("a,1\n")
    with pytest.raises(InputError, match=r"rows.txt: the name must end in .jsonl, .csv or .tsv"):
        tasks.resolve("rows.txt")
    assert tasks.resolve("parity").oracle is not None
