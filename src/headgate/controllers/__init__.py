"""The reconcile loops for the status of objects.

`StatusController` follows routes, pools and Pods of all supported APIs through informers, and writes
conditions (Accepted, ResolvedRefs, Ready) and events. The conditions are derived from the snapshot that
gateways use.
"""

from headgate.controllers.service import ControllersConfig, run_controllers
from headgate.controllers.statuses import StatusController, StatusStatistics

__all__ = ["ControllersConfig", "StatusController", "StatusStatistics", "run_controllers"]
