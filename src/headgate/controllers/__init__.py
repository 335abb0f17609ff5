"""The loops that bring the objects to what they should be.

Decides what statuses say: `StatusController` is given routes, pools and Pods of every dialect through
informers, and hands on conditions (Accepted, ResolvedRefs, Ready) and events. What it says is judged by the
translation that gateways route by.
"""

from headgate.controllers.service import ControllersConfig, run_controllers
from headgate.controllers.statuses import StatusController, StatusStatistics

__all__ = ["ControllersConfig", "StatusController", "StatusStatistics", "run_controllers"]
