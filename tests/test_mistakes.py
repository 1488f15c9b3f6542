"""Eighty mistakes of a first week: each one sentence, the right exit code, no traceback, and nothing half written."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from scaler.model.sample import Sample
from tests.commands import succeed
from tuner.cli import main
from tuner.store.connection import open_store
from tuner.store.samples import save_samples

ROOT = Path(__file__).parents[1]
USAGE = 3  # lines that click prints before what is wrong: usage, where help is, an empty one


@dataclass(frozen=True, slots=True)
class Mistake:
    """A command in a folder with files that are wrong, a piece of its one sentence, and its exit code."""

    words: str
    says: str
    code: int = 2


WRONG_FLAGS = (
    Mistake("nosuch", "No such command 'nosuch'"),
    Mistake("tnue shop", "No such command 'tnue'"),
    Mistake("tune", "Missing argument 'APP'"),
    Mistake("tune shop --bugdet 3", "No such option"),
    Mistake("tune shop --budget many", "'many' is not a valid integer range"),
    Mistake("tune shop --budget 0", "0 is not in the range"),
    Mistake("tune shop --seconds -1", "-1.0 is not in the range"),
    Mistake("simulate --plant", "Option '--plant' requires an argument"),
    Mistake("ingest events", "Missing option '--app'"),
    Mistake("push shop", "Missing option '--why'"),
    Mistake("app nosuch", "No such command 'nosuch'"),
    Mistake("token make anna --scope all", "'all' is not one of"),
    Mistake("token make anna --app shop", "Missing option '--scope'. Choose from report, read, tune, push"),
    Mistake("completion", "Choose from bash, zsh, fish"),
    Mistake("control lock shop --why x", "Choose from out, in"),
    Mistake("completion tcsh", "'tcsh' is not one of"),
    Mistake("trial shop one", "'one' is not a valid integer range"),
    *(
        Mistake(words, "is not in the range 1<=x<=2147483647")
        for words in (
            f"trial shop {2**63}",
            f"report shop --run {10**20}",
            f"trials shop --run {10**20}",
            f"remove-run shop {10**20} --why x",
            f"push shop {10**20} --why x",
            f"propose shop {10**20} --why x",
        )
    ),
    Mistake(f"trials shop --limit {2**63}", "is not in the range 0<=x<=2147483647"),
    Mistake("trial 17", "Missing argument 'NUMBER'"),
    Mistake("demo --serve --port 70000", "70000 is not in the range"),
    Mistake("trials shop --json --csv", "give one of them"),
    Mistake("simulate --seed 1 --seeds 3", "give one of them"),
    Mistake("simulate --trace rates.csv --generator step", "give one of them"),
)
WRONG_VALUES = (
    Mistake("simulate --r-max 60kg", "write it as in 0.06, 60ms or 2m"),
    Mistake("simulate --r-max 0", "must be"),
    Mistake("simulate --r-max nan", "must be"),
    Mistake("simulate --policy nosuch", "nosuch"),
    Mistake("simulate --plant water", "there is no plant 'water'"),
    Mistake("simulate --infrastructure Z", "there is no infrastructure 'Z'"),
    Mistake("simulate --application nosuch", "nosuch"),
    Mistake("simulate --generator nosuch", "nosuch"),
    Mistake("simulate --slots 0", "slots"),
    Mistake("simulate --weights 1,2", "is not three numbers with commas between"),
    Mistake("simulate --weights 1,1,1", "weights"),
    Mistake("simulate --quantile 2", "the quantile is 2"),
    Mistake("simulate --option nosuch=1 --policy planner", "nosuch"),
    Mistake("simulate --option nosuch", "is not of the form KEY=VALUE"),
    Mistake("simulate --n-res 99", "n_res is 99"),
    Mistake("simulate --k-max 0", "k_max is 0"),
    Mistake("simulate --k-max 100000", "k_max is 100,000, and may be 1,000 at most"),
    Mistake("simulate --policy planer", "there is no policy 'planer'; did you mean 'planner'?"),
    Mistake("tune shop --policy planer", "there is no policy 'planer'; did you mean 'planner'?"),
    Mistake("tune shap", "there is no application 'shap'; did you mean 'shop'?"),
    Mistake("ingest log --app shop --window 10min", "'10min' is no seconds; write it as in 0.06, 60ms or 2m"),
    Mistake("ingest log --app shop --watch --every 10ms", "0.01 is not in the range"),
    Mistake("push nosuch 3 --why x", "there is no application 'nosuch'"),
    Mistake("app add a/b good.toml", "'a/b' is no name for an application"),
    Mistake("init log --app a/b", "'a/b' is no name for an application"),
    Mistake("tune shop --eta-v 150%", "eta_v is 1.5"),
    Mistake("tune shop --eta-v 5kg", "write it as in 0.05 or 5%"),
    Mistake("tune shop --r-max 1ms", "no deployment answers within"),
    Mistake("tune shop --engine nosuch", "there is no engine 'nosuch'"),
    Mistake("tune shop --engine GP", "there is no engine 'GP'; did you mean 'gp'?"),
    Mistake("what-if clicks.zstd --query parze", "the log has no query 'parze'; did you mean 'parse'?"),
    Mistake("tune shop --held-out 95%", "--held-out is 0.95"),
    Mistake("tune shop --policy nosuch", "nosuch"),
    Mistake("tune shop --gap 9", "--since, --until and --gap choose of monitored arrivals"),
    Mistake("ingest log --app shop --window 0", "the window is 0"),
    Mistake("explain shop --at soon", "'soon' is no time"),
    Mistake("trials shop --since yesterday", "'yesterday' is no time"),
    Mistake("db prune --older-than 90", "must be a length of time above zero"),
    Mistake("what-if log --executors 0", "must be numbers of executors from 1"),
    Mistake("control block shop 8 18 --why x", "blocked_hours"),
    Mistake("serve --port 70000", "70000"),
    Mistake("serve --host 0.0.0.0", "--"),
)
WRONG_FILES = (
    Mistake("simulate missing.toml", "missing.toml"),
    Mistake("simulate data.json", "data.json"),
    Mistake("simulate empty.toml", "empty.toml states nothing"),
    Mistake("simulate wrong_key.toml", "wrong_key.toml, [qos]"),
    Mistake("simulate wrong_type.toml", "wrong_type.toml, [qos] r_max"),
    Mistake("simulate wrong_table.toml", "wrong_table.toml, [qso]"),
    Mistake("simulate .", "cannot be read"),
    Mistake("simulate --trace missing.csv", "missing.csv cannot be read"),
    Mistake("simulate --trace empty.csv", "empty.csv is empty"),
    Mistake("simulate --trace words.csv", "words.csv"),
    Mistake("simulate --trace rates.xlsx", "the suffix is not that of a trace"),
    Mistake("simulate --html no/such/page.html", "no/such"),
    Mistake("app add other empty.toml", "describes no operators"),
    Mistake("app add other data.json", "data.json"),
    Mistake("app add other missing.toml", "missing.toml"),
    Mistake("ingest missing --app shop", "missing"),
    Mistake("ingest data.json --app shop", "data.json"),
    Mistake("try data.json", "data.json"),
    Mistake("try missing", "missing"),
    Mistake("what-if log/nothing", "nothing"),
    Mistake("init empty.csv --app new", "empty.csv"),
    Mistake("init clicks.zstd --app new --folder data.json/new", "there can be no folder data.json/new"),
    Mistake("lab traces data.json/new", "there can be no folder data.json/new"),
    Mistake("dashboards data.json/new", "there can be no folder data.json/new"),
    Mistake("app add other bad_bound.toml", "a latency bound names operator 'pares'; did you mean 'parse'?"),
    Mistake("simulate bad_bound.toml", "a latency bound names operator 'pares'; did you mean 'parse'?"),
    Mistake("simulate bad_edge.toml", "there is no operator 'cuont'; did you mean 'count'?"),
    Mistake("simulate bad_first.toml", "the first replicas are on 'cor'; did you mean 'core'?"),
    Mistake("simulate wrong_flag.toml", "wrong_flag.toml, [qos] r_max is true, and must be"),
    Mistake("lab compare good.toml", "good.toml is a scenario, which `tuner simulate` replays"),
    Mistake("lab reproduce table2 --traces missing", "missing/taxi.txt.gz is not there"),
    Mistake("db restore missing.db --yes", "missing.db"),
    Mistake("db restore data.json --yes", "data.json"),
)
WRONG_ORDER = (
    Mistake("tune nosuch", "there is no application 'nosuch'; there are shop"),
    Mistake("report shop", "was not tuned yet; tune it with: tuner tune shop"),
    Mistake("tune shop --resume", "'shop' has no interrupted tuning run"),
    Mistake("tune shop --resume --budget 3", "remove --budget, or start a new run without --resume"),
    Mistake("push shop --why x", "no objective of 'shop' is proposed; find one with: tuner tune shop"),
    Mistake("push shop 7 --why x", "has no objective 7; `tuner objectives shop` lists those that there are"),
    Mistake("roll-back shop --why x", "there is nothing to roll back"),
    Mistake("orders shop", "have no orders yet"),
    Mistake("trial shop 17", "application 'shop' has no trial 17; `tuner trials shop` lists"),
    Mistake("trial shap 1", "there is no application 'shap'"),
    Mistake("report shop --run 9", "application 'shop' has no tuning run 9; `tuner runs shop` lists"),
    Mistake("trials shop --run 9", "application 'shop' has no run 9; it was not tuned yet"),
    Mistake("surrogate fit shop", "there is no sample of application 'shop'"),
    Mistake("surrogate show shop", "has no surrogate"),
    Mistake("trace export shop new.csv", "there are no samples of 'shop'"),
    Mistake("samples nosuch", "there are no samples of 'nosuch'"),
    Mistake("explain shop --operator foo", "has no operator"),
    Mistake("explain nosuch", "nosuch"),
    Mistake("token revoke nobody", "nobody"),
    Mistake("app remove shop --why x", "confirm it with --yes"),
    Mistake("propose shop 3 --why x", "has no objective 3"),
    Mistake("control lift shop pin --why x", "no pin stands"),
    Mistake("push shop --why ''", "--why is empty"),
)
CHAIN = """\
[[application.operator]]
name = "parse"
service_time = 0.005
scv = 1.0
[[application.operator]]
name = "count"
service_time = 0.005
scv = 1.0
[[application.edge]]
from = "parse"
to = "count"
"""
NODE = """\
[infrastructure]
first = "cor"
node = [{ name = "core", speedup = 1.0, price = 1.0 }]
"""
WRONG_DATABASES = (
    Mistake("app list --store junk.db", "junk.db is no SQLite database"),
    Mistake("app list --store other.db", "holds tables of something else"),
    Mistake("app list --store .", "is a folder; name a file"),
    Mistake("app list --store no/such/tuner.db", "there is no folder"),
    Mistake("app list --store mysql://localhost/tuner", "mysql:// is no database that this works with"),
    Mistake("app list --store sqlite:///:memory:", "names no file"),
    *(
        Mistake(f"{words} --store tunner.db", "there is no database tunner.db; name yours with --store or TUNER_STORE")
        for words in (
            "app list",
            "app show shop",
            "samples shop",
            "trials shop",
            "report shop",
            "objectives shop",
            "tune shop",
            "surrogate fit shop",
            "live status shop",
            "push shop --why x",
            "token list",
            "db check",
            "db backup copy.db",
            "explain shop",
            "events shop",
            "audit verify",
        )
    ),
)
MISTAKES = (*WRONG_FLAGS, *WRONG_VALUES, *WRONG_FILES, *WRONG_ORDER, *WRONG_DATABASES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one application, and files that are wrong, each in its own way."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "log").mkdir()
    texts = {
        "empty.toml": "", "empty.csv": "", "data.json": '{"a": 1}\n', "words.csv": "rate\nmany\n",
        "rates.csv": "rate\n5\n", "rates.xlsx": "x", "wrong_key.toml": "[qos]\nrmax = 1\n",
        "wrong_type.toml": '[qos]\nr_max = "60ms"\n', "wrong_flag.toml": "[qos]\nr_max = true\n",
        "wrong_table.toml": "[qso]\nr_max = 1\n",
        "bad_bound.toml": f"{CHAIN}[qos]\nbounds = {{ pares = 0.02 }}\n",
        "bad_edge.toml": CHAIN.replace('to = "count"', 'to = "cuont"'),
        "bad_first.toml": f"{CHAIN}{NODE}",
        "junk.db": "no database at all, but long enough to be read as one\n" * 9,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "clicks.zstd").write_bytes(files("tuner.demo").joinpath("recorded", "clicks.zstd").read_bytes())
    with closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE invoices (number INTEGER)")
    succeed("demo", "--save", folder / "good.toml")
    succeed("app", "add", "shop", folder / "good.toml", "--store", folder / "tuner.db")
    with closing(open_store(folder / "tuner.db")) as store, store.begin() as session:
        save_samples(session, [Sample("live", "parse", 0.0, 60.0, "table", tuples_in=3.0)])
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    monkeypatch.setenv("TUNER_STORE", "tuner.db")
    return place


def hash_files(folder: Path) -> dict[str, str]:
    """What is there, but for SQLite's logs, which reading makes."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm")))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def split(words: str) -> list[str]:
    return ["" if word == "''" else word for word in words.split()]


def check(mistake: Mistake, code: int, out: str, err: str) -> None:
    assert code == mistake.code, err or out
    assert "Traceback" not in err + out
    assert out == ""
    lines = err.rstrip("\n").split("\n")
    assert len(lines) == 1 or (lines[0].startswith("Usage: ") and len(lines) <= USAGE + 1), err
    assert lines[-1].startswith("Error: "), err
    assert mistake.says in lines[-1]


def test_there_are_eighty() -> None:
    assert len({mistake.words for mistake in MISTAKES}) == len(MISTAKES) >= 80


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.words)
def test_a_mistake_is_one_sentence_and_writes_nothing(here: Path, mistake: Mistake) -> None:
    before = hash_files(here)
    result = CliRunner().invoke(main, split(mistake.words), prog_name="tuner")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    check(mistake, result.exit_code, result.stdout, result.stderr)
    assert hash_files(here) == before


@pytest.mark.parametrize(
    "words", ["tune shop --bugdet 3", "simulate data.json", "trial shop 17", "app list --store junk.db"]
)
def test_a_mistake_is_the_same_of_a_process(here: Path, words: str) -> None:
    mistake = next(one for one in MISTAKES if one.words == words)
    done = subprocess.run(
        [sys.executable, "-m", "tuner", *split(words)], cwd=here, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "HOME": str(here), "PATH": "", "TUNER_STORE": "tuner.db"},
    )  # fmt: skip
    check(mistake, done.returncode, done.stdout, done.stderr)


HEAVY = ("torch", "numba", "scipy", "pyspark", "pandas", "optuna", "fastapi")  # a quarter of a second each, or more
PROBE = """
import sys
from tuner.cli import main
try:
    main(sys.argv[2:])
except SystemExit:
    print("loaded:", *sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "words", ["--help", "tune shop --bugdet 3", "trial shop 17", "report shop", "try nowhere", "push shop"]
)
def test_a_refusal_comes_before_anything_heavy_is_loaded(here: Path, words: str) -> None:
    """`tune --bugdet` took a second, half of it for scipy."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, ",".join(HEAVY), *split(words)], cwd=here, capture_output=True, text=True,
        check=False, env={"PYTHONPATH": str(ROOT), "HOME": str(here), "PATH": "", "TUNER_STORE": "tuner.db"},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "loaded:", done.stderr
