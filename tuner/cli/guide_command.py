"""`tuner guide`: list the guide's topics, or show the page of one."""

from __future__ import annotations

import sys
from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem
from rich.markdown import Markdown

from scaler.model.errors import BadInput
from tuner.guide.pages import TOPICS, find_title, read_page
from tuner.views.grid import open_console, print_lines

WIDTH = 110  # columns at most: longer lines are hard to read


def complete_topic(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=find_title(name)) for name in TOPICS if name.startswith(incomplete)]


@click.command(epilog="\b\nExamples:\n  tuner guide\n  tuner guide troubleshooting\n  tuner guide settings | less")
@click.argument("topic", required=False, shell_complete=complete_topic)
def guide(topic: str | None) -> None:
    """Show the guide: its topics, or the page of one.

    The same pages are at /guide of `tuner serve`. Piped, a page is printed as it was written, in Markdown.
    """
    if topic is None:
        width = max(map(len, TOPICS))
        print_lines(*(f"{name:<{width}}  {find_title(name)}" for name in TOPICS))
        print_lines("", "Show one: tuner guide TOPIC")
    elif topic not in TOPICS:
        near = get_close_matches(topic, TOPICS, 1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(TOPICS)}"
        raise BadInput(f"the guide has no topic {topic!r}; {hint}")
    elif sys.stdout.isatty():
        console = open_console()
        console.print(Markdown(read_page(topic)), width=min(WIDTH, console.width))
    else:
        click.echo(read_page(topic), nl=False)
