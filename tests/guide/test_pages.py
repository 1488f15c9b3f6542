"""Every page of the guide is listed, titled, linked rightly, and shown on the terminal and by the service."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import httpx
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from tests.commands import refuse, succeed
from tests.service.http_server import running
from tuner.cli import guide_command
from tuner.guide.pages import PICTURES, TOPICS, find_title, read_page
from tuner.service.access.envelope import wrap
from tuner.service.app import make_app
from tuner.service.page.guide_page import name_anchor, render_page
from tuner.store.connection import open_store

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tuner" / "guide"
MAX_README_LINES = 150
MAX_CODE_LINE = 63  # characters that a block shows 800 px wide
PAGES = {**{topic: FOLDER / f"{topic}.md" for topic in TOPICS}, "README": ROOT / "README.md"}


@cache
def list_anchors(path: Path) -> set[str]:
    tokens = MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8"))
    return {name_anchor(tokens[i + 1].content) for i, one in enumerate(tokens) if one.type == "heading_open"}


def list_targets(path: Path) -> list[str]:
    """Addresses of links and pictures."""
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    inner = [one for token in tokens for one in token.children or ()]
    named = [one.attrGet("href" if one.type == "link_open" else "src") for one in inner]
    raw = [found for one in (*tokens, *inner) if one.type.startswith("html")
           for found in re.findall(r'(?:src|srcset|href)="([^"]+)"', one.content)]  # fmt: skip
    return [str(one) for one in named if one is not None] + raw


def test_each_file_of_the_folder_is_a_listed_page_or_picture() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(TOPICS)
    assert {path.name for path in FOLDER.iterdir() if path.suffix in (".svg", ".png")} == set(PICTURES)


def test_pages_and_pictures_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["tuner.guide"]
    for name in (*(f"{topic}.md" for topic in TOPICS), *PICTURES):
        assert any(fnmatch(name, pattern) for pattern in patterns), name


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_with_its_one_title(name: str) -> None:
    lines = re.sub(r"^```.*?^```$", "", PAGES[name].read_text(encoding="utf-8"), flags=re.S | re.M).splitlines()
    assert lines[0].startswith("# ")
    assert [line for line in lines[1:] if line.startswith("# ")] == []


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target in list_targets(PAGES[name]):
        if target.startswith(("http://127.0.0.1", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = PAGES[name].parent / path if path else PAGES[name]
        assert file.is_file(), target
        assert not anchor or anchor in list_anchors(file), target


@pytest.mark.parametrize("topic", TOPICS)
def test_pages_link_to_each_other_alone(topic: str) -> None:
    """They travel in a wheel, without the repository."""
    files = [target.partition("#")[0] for target in list_targets(PAGES[topic]) if not target.startswith("http")]
    assert {file for file in files if file} <= {f"{one}.md" for one in TOPICS} | set(PICTURES)


@pytest.mark.parametrize("topic", TOPICS)
def test_lines_of_code_fit_a_narrow_window(topic: str) -> None:
    tokens = MarkdownIt("commonmark").parse(read_page(topic))
    lines = [line for one in tokens if one.type in ("fence", "code_block") for line in one.content.splitlines()]
    assert [line for line in lines if len(line) > MAX_CODE_LINE] == []


def test_the_command_lists_topics() -> None:
    printed = succeed("guide")
    for topic in TOPICS:
        assert f"{topic} " in printed
        assert find_title(topic) in printed


@pytest.mark.parametrize("topic", TOPICS)
def test_piped_a_page_is_its_markdown(topic: str) -> None:
    assert succeed("guide", topic) == read_page(topic)


def test_an_unknown_topic_is_one_sentence() -> None:
    assert refuse("guide", "tunning") == "the guide has no topic 'tunning'; did you mean tuning?"
    assert refuse("guide", "x").endswith(f"it has {', '.join(TOPICS)}")


def test_on_a_terminal_a_page_is_laid_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(guide_command, "open_console", lambda: Console(width=70, force_terminal=True, highlight=False))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    guide_command.guide.callback("concepts")  # type: ignore[misc]
    printed = capsys.readouterr().out
    assert "Concepts and glossary" in printed
    assert "## Glossary" not in printed
    assert "\x1b[" in printed


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    store = open_store(tmp_path_factory.mktemp("guide") / "tuner.db")
    with running(wrap(make_app(store))) as url, httpx.Client(base_url=url, timeout=30.0) as client:
        yield client
    store.close()


@pytest.mark.parametrize("topic", TOPICS)
def test_the_service_shows_a_page_without_a_log_in(client: httpx.Client, topic: str) -> None:
    answer = client.get(f"/guide/{topic}")
    assert answer.status_code == 200
    assert f'<h1 id="{name_anchor(find_title(topic))}">' in answer.text
    for target in re.findall(r'(?:href|src)="(/guide[^"#]*)', answer.text):
        assert client.get(target, follow_redirects=True).status_code == 200, target
    assert ".md" not in " ".join(re.findall(r'href="([^"]*)"', answer.text))


def test_the_guide_begins_with_the_first_page_and_an_unknown_one_is_not_found(client: httpx.Client) -> None:
    assert client.get("/guide").headers["location"] == f"/guide/{TOPICS[0]}"
    assert client.get("/guide/tunning").status_code == 404
    assert client.get("/guide/__init__.py").status_code == 404


def test_markup_in_a_page_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    made = render_text("# A\n\n<b onclick=x>bold</b> <script> `<script>`\n\n```sh\n<script>\n```", monkeypatch)
    assert made.count("&lt;script&gt;") == 3
    assert "<script" not in made


def render_text(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("tuner.service.page.guide_page.read_page", lambda _: text)
    return str(render_page.__wrapped__("any"))


def test_names_and_figures_stay_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert '<span class="one">--max-ratio</span>' in render_text("`--max-ratio`", monkeypatch)
    assert "<code>SPARK_<wbr>EXECUTOR_" in render_text("`SPARK_EXECUTOR_ATTRIBUTE_NODE_TYPE`", monkeypatch)
    assert "5\u00a0% of 1\u00a0MiB" in render_text("5 % of 1 MiB", monkeypatch)


def test_a_table_of_sentences_is_a_list_on_a_phone(monkeypatch: pytest.MonkeyPatch) -> None:
    head = "| key | default | meaning |\n|---|---|---|\n"
    assert '<table class="list">' in render_text(f"{head}| `a` | 1 | {'long ' * 20}|", monkeypatch)
    made = render_text(f"{head}| `a` | 1 | short |", monkeypatch)
    assert "<table>" in made
    assert '<td data-label="default">1</td>' in made


@pytest.mark.parametrize("name", ["README", "installation"])
def test_torch_for_processors_is_the_version_that_is_asked_for(name: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert f"pip install {extras['deep'][0]} --index-url" in PAGES[name].read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(PAGES["README"].read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES
