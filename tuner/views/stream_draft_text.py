"""Write the draft of a stream as a commented scenario and as the snippet for its driver."""

from __future__ import annotations

import json

from scaler.model.nodes import ONE_TYPE
from scaler.model.units import format_count, format_duration
from tuner.what_if.stream_draft import QUANTILE, DraftOperator, StreamDraft

SCENARIO = """\
# {app}, drafted by `tuner init` from {log}.
# Correct what you know better, then: tuner app add {app} {app}.toml
# Try it without a database: tuner simulate {app}.toml

[application]
name = {name}
{sources}
{operators}
[trace]
file = "{app}.csv"           # arrival rates as recorded: {slots} of {step}; without this
                             # table `tuner tune` takes what `tuner ingest` reads

[infrastructure]
# A replica is an executor of one core. They are taken to be alike; where they differ, write one
# [[infrastructure.node]] for each type.
[[infrastructure.node]]
name = "{node}"
speedup = 1.0                # speed against the cores of the log
price = 1.0                  # of one replica per hour, in your money

[qos]
r_max = {r_max}                  # seconds from arrival to result; drafted: about as quick as recorded
quantile = {quantile}              # of the records that must keep to it
eta_v = 0.05                 # share of slots that may be slower
eta_r = 0.1                  # share of slots in which the number of replicas may change

[policy]
name = "planner"

[run]
plant = "batches"            # replay micro-batches
"""
OPERATOR = """\
[[application.operator]]
name = {name}
service_time = {service:.4g}    # seconds of one record on one core, from the tasks of the log
scv = 0.5                    # variance over squared mean; event logs do not show it, scaler.ServiceTimer does
k_max = {k_max}                    # replicas it may have at most{tasks}
batches = {{ {batches} }}
"""
TASKS = """; its batches had {tasks} in the
                             # log: more replicas help only with as many partitions"""
DRIVER = '''\
"""Agents of stream-scaler for the queries of {app}; drafted by `tuner init` from {log}."""

from pathlib import Path

import scaler

OPERATORS = {operators}  # queries by name; one without a name by the beginning of its id


def attach(spark, url="http://127.0.0.1:8321", token=Path("{app}.token")):
    """Decide and record in every slot, and change nothing yet.

    Call it once the session is there; agents find the queries as they start. `tuner serve` is the manager, and
    `tuner token make {app}-agents --scope report --app {app} > {app}.token` makes the token.
    """
    settings = scaler.AttachSettings(slot_s={slot})
    return scaler.attach(spark, app={name}, url=url, token=token, settings=settings)


# In your driver:
#
#     live = attach(spark)
#     query = frame.writeStream.queryName({first})...start()
#     query.awaitTermination()
#     live.detach()
'''


def write_scenario(draft: StreamDraft, app: str, log: str) -> str:
    """The TOML text that `tuner app add` and `tuner simulate` read."""
    several = len(draft.operators) > 1
    shares = ", ".join(f"{json.dumps(one.name)} = {one.share:.6g}" for one in draft.operators)
    note = (
        "# The queries are taken to read sources of their own; write [[application.edge]] where one feeds the other.\n"
    )
    return SCENARIO.format(
        app=app,
        name=json.dumps(app),
        log=log,
        sources=f"{note}sources = {{ {shares} }}\n" if several else "",
        operators="\n".join(map(write_operator, draft.operators)),
        slots=format_count(draft.trace.rates.size, "slot", "slots"),
        step=format_duration(draft.trace.step_s),
        node=ONE_TYPE.name,
        r_max=f"{draft.r_max:g}",
        quantile=QUANTILE,
    )


def write_operator(one: DraftOperator) -> str:
    batches = {"trigger_s": one.trigger_s, "overhead_s": round(one.overhead_s, 4), "partitions": one.partitions}
    listed = ", ".join(f"{key} = {value}" for key, value in batches.items() if value)
    tasks = "" if one.partitions else TASKS.format(tasks=format_count(one.tasks, "task", "tasks"))
    return OPERATOR.format(
        name=json.dumps(one.name), service=one.service_s, k_max=one.k_max, batches=listed, tasks=tasks
    )


def write_driver(draft: StreamDraft, app: str, log: str) -> str:
    """The Python text that attaches agents to this stream."""
    names = [one.name for one in draft.operators]
    return DRIVER.format(
        app=app, log=log, name=json.dumps(app), operators=json.dumps(names), first=json.dumps(names[0]),
        slot=draft.trace.step_s,
    )  # fmt: skip
