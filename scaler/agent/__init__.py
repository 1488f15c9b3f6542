"""One operator's loop without its threads and clocks: what was seen and the orders in; decisions and changes out.

pilot = Pilot("parse", (NodeType("small", 1.0, 1.0), NodeType("fast", 2.0, 2.2)), k_max=10, seed=1)
step = pilot.step(observation, link.orders(), clock())   # an Observation: time is the start of the slot
done, why = actuate(step.change)                         # Reconfiguration(): nothing came of it
decision = pilot.acted(step, done, why)
link.report("parse", [decision.to_json()])
"""

from scaler.agent.pilot import Pilot
from scaler.model.decision import Decision, Step

__all__ = ["Decision", "Pilot", "Step"]
