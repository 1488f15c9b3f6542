"""Link to the Application Manager: reports go out and orders come in, through any failure of the network.

link = Link("https://manager:8443", "orders", ["parse", "join"], token, Path("state"), instance="driver-1")
link.start()
link.orders()                                                   # the last known ones, at once; None before any came
link.report("parse", decisions=[decision.to_json()], samples=[])
link.status().fault                                             # "" or one sentence
link.stop(timeout=5.0)
"""

from scaler.link.link import Link, LinkSettings, LinkStatus

__all__ = ["Link", "LinkSettings", "LinkStatus"]
