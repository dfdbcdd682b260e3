"""DatasetTable of folders and globs: the format by the files' endings, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import headrace as hr

TABLE = pa.table({"id": [1, 2], "name": ["a", "b"]})


def write_json(table: pa.Table, path: str) -> None:
    Path(path).write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')


def write_tsv(table: pa.Table, path: str) -> None:
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(delimiter="\t"))


def write_gzipped(table: pa.Table, path: str) -> None:
    Path(path).write_bytes(gzip.compress(b"id,name\n1,a\n2,b\n"))


WRITERS: dict[str, Any] = {
    "a.parquet": pq.write_table,
    "a.snappy.pq": pq.write_table,
    "A.CSV": pyarrow.csv.write_csv,
    "a.csv.gz": write_gzipped,
    "a.tsv": write_tsv,
    "a.orc": pyarrow.orc.write_table,
    "a.feather": pyarrow.feather.write_feather,
    "a.arrow": pyarrow.feather.write_feather,
    "a.jsonl": write_json,
    "a.ndjson": write_json,
    "part-0000": pq.write_table,
}


def rows(provider: hr.DatasetTable) -> list[dict[str, Any]]:
    schema = provider.schema()
    plan = provider.scan(hr.ScanRequest(schema, tuple(schema.names)))
    return [row for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", WRITERS)
def test_folder_glob_and_file_are_read_in_the_format_of_their_endings(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    WRITERS[name](TABLE, str(folder / name))
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.crc").touch()
    pattern = f"{folder}/*{Path(name).suffix}" if "." in name else f"{folder}/part*"
    inside = pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem())
    for source in (folder, str(folder), f"{folder}/", folder / name, pattern, [folder / name], folder.as_uri()):
        assert rows(hr.DatasetTable(source)) == TABLE.to_pylist()
    assert rows(hr.DatasetTable("", filesystem=inside)) == TABLE.to_pylist()


def test_folder_whose_own_name_tells_the_format_is_read_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "out.csv"
    folder.mkdir()
    pyarrow.csv.write_csv(TABLE, str(folder / "part-0000"))
    assert rows(hr.DatasetTable(folder)) == TABLE.to_pylist()


def test_glob_takes_what_it_matches_and_finds_folders_below(tmp_path: Path) -> None:
    for year in (2024, 2025):
        (tmp_path / f"year={year}").mkdir()
        pyarrow.csv.write_csv(TABLE, str(tmp_path / f"year={year}" / "a.csv"))
        (tmp_path / f"year={year}" / "notes.txt").write_text("x")
    table = hr.DatasetTable(f"{tmp_path}/**/*.csv")
    assert table.schema().names == ["id", "name", "year"]
    assert len(rows(table)) == 4
    assert len(rows(hr.DatasetTable(tmp_path / "year=2024" / "*.csv"))) == 2
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.orc"):
        hr.DatasetTable(f"{tmp_path}/**/*.orc")


def test_path_that_is_not_there_is_named_with_where_it_was_looked_for() -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder 'nowhere' \(looked for in /"):
        hr.DatasetTable("nowhere")


def test_path_with_a_bracket_that_exists_is_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "a[1]"
    folder.mkdir()
    pq.write_table(TABLE, folder / "a.parquet")
    assert rows(hr.DatasetTable(folder)) == TABLE.to_pylist()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a.csv", "b.csv", "c.parquet"), r"files of several formats: 2 x \.csv, 1 x \.parquet; say it with format="),
        (("a.csv", "readme.md"), r"files of several formats: 1 x \.csv, 1 x \.md \(readme\.md\); say it"),
        (("a.txt", "b.txt"), r"an ending that tells no format: 2 x \.txt \(a\.txt|b\.txt\)"),
        (("a.csv", "plain"), r"files of several formats: 1 x \.csv, 1 x no ending \(plain\)"),
    ],
    ids=["mixed", "with another", "unknown", "with none"],
)
def test_folder_of_mixed_or_unknown_endings_is_refused_with_what_was_found(
    names: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    for name in names:
        pyarrow.csv.write_csv(TABLE, str(tmp_path / name))
    for source in (tmp_path, [tmp_path / name for name in names]):
        with pytest.raises(ValueError, match=words):
            hr.DatasetTable(source)
    assert len(rows(hr.DatasetTable(tmp_path, format="csv"))) == 2 * len(names)


def test_single_file_of_an_unknown_ending_is_refused_unless_the_format_is_said(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.dat")
    with pytest.raises(ValueError, match=r"an ending that tells no format: 1 x \.dat \(a\.dat\); say it with format="):
        hr.DatasetTable(tmp_path / "a.dat")
    assert rows(hr.DatasetTable(tmp_path / "a.dat", format="parquet")) == TABLE.to_pylist()


def test_glob_elsewhere_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="globs are for local files"):
        hr.DatasetTable("*.csv", filesystem=pa.fs.LocalFileSystem())
    with pytest.raises(ValueError, match="globs are for local files"):
        hr.DatasetTable("s3://bucket/*.csv")
