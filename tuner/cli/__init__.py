"""The command line `tuner`: its commands and where each one lives; a command's module is imported when it runs."""

from __future__ import annotations

from typing import Any

import click

from tuner.cli.lazy_group import Entry, LazyGroup


def make_group(name: str, text: str, example: str, **entries: Entry) -> LazyGroup:
    """A group of commands; its help and an example of its use."""
    return LazyGroup(name, entries=entries, help=text, epilog=f"\b\nExamples:\n{example}")


COMMANDS: dict[str, Entry | LazyGroup] = {
    "demo": Entry("tuner.cli.demo_command:demo", "Walk the whole chain on the recording of a real stream."),
    "simulate": Entry(
        "tuner.cli.simulate_command:simulate", "Replay a trace under one or more policies and compare them."
    ),
    "try": Entry("tuner.cli.try_commands:try_log", "Show what event logs say of a stream, and what scaling saves."),
    "init": Entry("tuner.cli.try_commands:init", "Write a commented scenario and the driver snippet of a stream."),
    "what-if": Entry(
        "tuner.cli.what_if_command:what_if",
        "Replay one event log on other numbers of executors: latency and price of each.",
    ),
    "ingest": Entry(
        "tuner.cli.samples_commands:ingest", "Read the monitoring of a stream into samples by operator and window."
    ),
    "samples": Entry("tuner.cli.samples_commands:samples", "List the samples of an application, window by window."),
    "trace": make_group(
        "trace",
        "Write the arrival rates of an application to a file, or plot them.",
        "  tuner trace export shop rates.csv\n  tuner trace plot shop --html arrivals.html",
        export=Entry("tuner.cli.trace_commands:export", "Write the arrival rates of APP to FILE."),
        plot=Entry("tuner.cli.trace_commands:plot", "Plot the arrival rates of APP over time, gaps marked."),
    ),
    "surrogate": make_group(
        "surrogate",
        "Fit the surrogate of an application to its samples, and check it.",
        "  tuner surrogate fit shop\n  tuner surrogate show shop --html surrogate.html",
        fit=Entry("tuner.cli.surrogate_commands:fit", "Fit the surrogate of APP to its samples, store it and show it."),
        show=Entry("tuner.cli.surrogate_commands:show", "Show a surrogate of APP: figures, checks, and drift since."),
    ),
    "app": make_group(
        "app",
        "Describe an application: its operators, its trace, its QoS.",
        "  tuner demo --save shop.toml && tuner app add shop shop.toml\n  tuner app show shop\n  tuner app list",
        add=Entry("tuner.cli.app_commands:add", "Store FILE as the newest description of APP."),
        list=Entry("tuner.cli.list_commands:list_all", "List applications, tuning runs, and names with samples alone."),
        show=Entry("tuner.cli.app_commands:show", "Show the description of APP, its tuning runs and its objectives."),
        rename=Entry("tuner.cli.removal_commands:rename", "Give APP the name NEW, with all that is stored of it."),
        remove=Entry("tuner.cli.removal_commands:remove", "Remove APP with all that is stored of it."),
    ),
    "tune": Entry("tuner.cli.tune_command:tune", "Search the latency bounds of APP's operators and its weights."),
    "trials": Entry("tuner.cli.list_commands:trials", "List the trials of APP's tuning runs."),
    "trial": Entry("tuner.cli.report_commands:trial", "Show one trial of APP in full."),
    "report": Entry("tuner.cli.report_commands:report", "Report a tuning run of APP: settings, recommendation, gain."),
    "runs": Entry("tuner.cli.objective_commands:runs", "List the tuning runs of APP."),
    "remove-run": Entry("tuner.cli.objective_commands:remove_run", "Remove a tuning run of APP with its trials."),
    "objectives": Entry("tuner.cli.objective_commands:objectives", "List the objectives of APP."),
    "propose": Entry("tuner.cli.objective_commands:propose", "Propose an earlier objective of APP anew."),
    "push": Entry("tuner.cli.agent_commands:push", "Push objective VERSION of APP to a stage of its roll-out."),
    "roll-back": Entry("tuner.cli.agent_commands:roll_back", "Roll back the newest pushed objective of APP."),
    "orders": Entry("tuner.cli.agent_commands:orders", "Print the orders of APP's agents as JSON."),
    "control": make_group(
        "control",
        "Pin, lock or block changes of replicas; pause, resume or ask for retuning.",
        '  tuner control pin shop --until 6h --why "release at noon"\n'
        '  tuner control lock shop out --why "sale"\n'
        '  tuner control block shop 08:00 18:00 --days mon,fri --why "office hours"\n'
        '  tuner control retuning shop pause --why "new release"',
        pin=Entry("tuner.cli.control_commands:pin", "Pin the deployment of APP."),
        lock=Entry("tuner.cli.control_commands:lock", "Let agents of APP scale only out, or only in."),
        block=Entry("tuner.cli.control_commands:block", "Block changes of APP's replicas at some hours."),
        lift=Entry("tuner.cli.control_commands:lift", "Lift a control of APP."),
        list=Entry("tuner.cli.control_commands:list_all", "List the controls that stand for APP."),
        retuning=Entry("tuner.cli.control_commands:retuning", "Tune APP now; pause, resume or stop its retuning."),
    ),
    "events": Entry("tuner.cli.objective_commands:events", "List what was done to APP, by whom and why."),
    "serve": Entry("tuner.cli.serve_commands:serve", "Run the service: API, page, and retuning in the background."),
    "daemon": Entry("tuner.cli.serve_commands:daemon", "Retune the applications that are due, without the service."),
    "dashboards": Entry("tuner.cli.serve_commands:dashboards", "Write files to watch and run the service."),
    "explain": Entry("tuner.cli.agent_commands:explain", "Explain the decisions of APP's agents in one slot."),
    "token": make_group(
        "token",
        "Make, rotate, list and revoke the tokens that the service requires of agents and people.\n\n"
        "\b\nScopes:\n"
        "  report  an agent's: send samples and decisions, fetch its orders\n"
        "  read    see everything: the page, the lists, the metrics\n"
        "  tune    describe applications; start, pause and stop their tuning\n"
        "  push    change what agents do: push, roll back, pin, lock, block",
        "  tuner token make shop-agents --scope report --app shop\n"
        "  tuner token make anna --scope read --scope tune --scope push --all-apps --expires 30d\n"
        "  tuner token list\n  tuner token rotate shop-agents --file shop-agents.token\n  tuner token revoke anna",
        make=Entry("tuner.cli.admin_commands:make", "Make a token NAME and print its secret once."),
        rotate=Entry("tuner.cli.admin_commands:rotate", "Give the token NAME a new secret, printed or in a file."),
        list=Entry("tuner.cli.admin_commands:list_all", "List all tokens, revoked and expired ones too."),
        revoke=Entry("tuner.cli.admin_commands:revoke", "Revoke the token NAME and its page sessions."),
        readmit=Entry("tuner.cli.admin_commands:readmit", "Let the person NAME log in again after a revocation."),
    ),
    "live": make_group(
        "live",
        "Watch agents at work: a demo on a real cluster, or the state of an application's agents.",
        "  tuner live demo --html live.html\n  tuner live status orders",
        demo=Entry("tuner.cli.demo_commands:live_demo", "Start a Spark cluster here and an auto-scaled stream."),
        status=Entry("tuner.cli.agent_commands:status", "Show the agents of APP: orders, replicas, decisions."),
    ),
    "db": make_group(
        "db",
        "Check, upgrade, back up, restore, export and prune the database.",
        "  tuner db check\n  tuner db upgrade --store postgresql://tuner@localhost/tuner\n"
        "  tuner db backup monday.db\n  tuner db restore monday.db\n  tuner db prune --older-than 90d --dry-run",
        upgrade=Entry("tuner.cli.admin_commands:upgrade", "Upgrade the tables to the schema of this program."),
        check=Entry("tuner.cli.admin_commands:check", "Check the database and count its rows; exit code 1 on a fault."),
        backup=Entry("tuner.cli.backup_commands:backup", "Copy the database to FILE while it is in use."),
        restore=Entry(
            "tuner.cli.backup_commands:restore", "Replace the database by FILE, a copy that `tuner db backup` made."
        ),
        export=Entry("tuner.cli.admin_commands:export", "Export the database to FILE (.jsonl or .db)."),
        optuna=Entry("tuner.cli.admin_commands:optuna", "Export tuning runs and trials to FILE, an Optuna journal."),
        prune=Entry("tuner.cli.admin_commands:prune", "Delete rows that are older than AGE."),
    ),
    "audit": make_group(
        "audit",
        "Show who did what, and verify that nobody changed the record of it.",
        "  tuner audit show --app shop --since 7d\n  tuner audit verify",
        show=Entry("tuner.cli.audit_commands:show", "Show who did what, when and why, the newest last."),
        verify=Entry(
            "tuner.cli.audit_commands:verify",
            "Verify that no row of the audit log was changed, removed or inserted; exit code 1 on a fault.",
        ),
    ),
    "lab": make_group(
        "lab",
        "Benchmark policies and engines, and compute the published tables again (research).",
        "  tuner lab reproduce table2 --traces ../shared/traces\n"
        "  tuner lab compare --published --policy threshold-c --policy planner\n"
        "  tuner lab compare-engines --application pipeline --n-res 1",
        reproduce=Entry("tuner.cli.reproduce_command:reproduce", "Compute a published table or figure again."),
        traces=Entry("tuner.cli.trace_stand_ins:traces", "Write stand-ins for the traces of the papers to FOLDER."),
        compare=Entry("tuner.cli.lab_commands:compare", "Compare policies over many settings, against the floor."),
        **{
            "compare-engines": Entry(
                "tuner.cli.compare_engines_command:compare_engines", "Compare search engines on the same settings."
            )
        },
    ),
    "guide": Entry("tuner.cli.guide_command:guide", "Show the guide: its topics, or the page of one."),
    "completion": Entry("tuner.cli.lazy_group:completion", "Print a script that makes a shell complete commands."),
}  # fmt: skip


def show_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib import metadata  # a twentieth of a second that no command else takes

    try:
        number = metadata.version("stream-scaler")
    except metadata.PackageNotFoundError:
        number = "(run from its sources, not installed)"
    click.echo(f"tuner {number}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExamples:\n  tuner demo\n  tuner simulate --policy threshold-c --policy planner --html report.html",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Show the version."
)
def main(**_: Any) -> None:
    """Auto-scaling for Spark Structured Streaming: simulate, tune and watch the agents of a stream."""
