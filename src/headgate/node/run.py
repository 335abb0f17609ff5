"""The life cycle of a node: starts and stops its parts in order."""

import asyncio
import contextlib
import fcntl
import logging
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate import api, cluster
from headgate.node import (
    access,
    addresses,
    claim_links,
    deployments,
    leaderworkersets,
    log_files,
    mounts,
    pod_directories,
    processes,
    references,
    registration,
    replicasets,
)
from headgate.node.agent import Agent
from headgate.node.leaderworkerset_pods import LeaderWorkerSet
from headgate.node.pod_context import Tools
from headgate.node.workloads import Deployment, ReplicaSet

log = logging.getLogger(__name__)

_LEAVE_S = 2.0
_LAST_WRITES_S = 5.0
"""Added to the drain timeout for final status writes to the API server."""


class StateInUseError(Exception):
    """Another node uses the state directory."""


@dataclass(frozen=True)
class Ready:
    """A node that accepts Pods."""

    name: str
    server: str
    log_url: str
    """Where the embedded API server gets logs; empty beside others."""
    shares_address: bool
    """Whether Pods have ports of 127.0.0.1 instead of their own addresses."""
    pod_cidr: str = ""
    """The range of Pod addresses, if one was given."""
    mounts: bool = True
    """Whether containers see their volumes at the mountPaths."""


async def run_node(
    given: registration.NodeConfig,
    *,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[Ready], None] = lambda _: None,
) -> None:
    """Run Pods and Deployments until `stop` is set, then end the processes; the objects stay.

    Cancellation kills the processes immediately. Raises StateInUseError, cluster.ConfigurationError, and
    cluster.ApiError if the API server rejects the node at its start.
    """
    given.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _only_user(given.state):
        for (namespace, name), directory in given.images.claims.items():
            try:
                claim_links.link(given.state, namespace, name, directory)
            except (claim_links.ClaimTakenError, OSError) as error:
                log.warning("%s: claims: %s", given.images.source, error)
        async with cluster.Client.from_kubeconfig(given.kubeconfig) as client:
            await _run(given, client, stop or asyncio.Event(), on_ready)


async def _run(
    given: registration.NodeConfig,
    client: cluster.Client,
    stop: asyncio.Event,
    on_ready: Callable[[Ready], None],
) -> None:
    is_embedded = await client.is_embedded()
    controls = _controls(given, client, is_embedded=is_embedded)
    runner = processes.ProcessRunner(given.processes)
    await asyncio.to_thread(runner.end_leftovers)
    log_directory = log_files.LogDirectory(given.logs)
    identity = _identity(given, client)
    reachable = (
        access.of_logs(log_directory)
        if is_embedded
        else access.of_cluster(given, identity, client, log_directory)
    )
    async with reachable as server:
        with _address_pool(given) as pool:
            identity = server.published(identity)
            node = registration.Registration(client, identity, given.heartbeat_s)
            await node.register()
            events = cluster.EventRecorder(client, "headgate-node")
            mine = None if controls else f"spec.nodeName={identity.name}"
            pods = cluster.Informer(client, api.Pod, field_selector=mine)
            tools = Tools(
                client,
                events,
                runner,
                log_directory,
                identity,
                random.Random(),  # noqa: S311 - jitter
                pod_directories.PodDirectories(given.state),
                references.FollowedReferences(client),
                given.mounting or await mounts.detect(),
                given.images,
            )
            log.info("containers get their volumes by %s", tools.mounting)
            agent = Agent(tools, pods, pool, binds=controls)
            async with asyncio.TaskGroup() as tasks:
                served = tasks.create_task(server.run(agent))
                working = [tasks.create_task(each) for each in (events.run(), node.run(), agent.run())]
                working += [tasks.create_task(each) for each in (pods.run(), tools.followed.run())]
                if controls:
                    working.append(tasks.create_task(_control_workloads(client, events, pods)))
                ready = Ready(
                    identity.name,
                    client.server,
                    identity.log_url,
                    pool is None,
                    str(given.pod_cidr or ""),
                    tools.mounting.is_real,
                )
                # In its own task, so that a node that waits for its API server can be stopped as well.
                working.append(tasks.create_task(_tell_once_synced(pods, ready, on_ready)))
                await stop.wait()
                await _drain(agent, given.drain_timeout_s)
                server.stop()
                await _leave(node)
                for task in working:
                    task.cancel()
                await served


def _identity(given: registration.NodeConfig, client: cluster.Client) -> registration.Identity:
    network = given.pod_cidr or addresses.NETWORK
    return registration.Identity(
        registration.node_name(given),
        given.node_ip or registration.own_address(client.server),
        # Each block of 256 has a first and a last address that no Pod gets.
        min(registration.MAX_PODS, network.num_addresses - 2 * -(-network.num_addresses // 256)),
        labels=given.labels,
        taints=given.taints,
        instance=registration.node_instance(given),
    )


async def _tell_once_synced(
    pods: cluster.Informer[api.Pod], ready: Ready, on_ready: Callable[[Ready], None]
) -> None:
    await pods.wait_synced()
    on_ready(ready)


async def _control_workloads(
    client: cluster.Client, events: cluster.EventRecorder, pods: cluster.Informer[api.Pod]
) -> None:
    """Follow Pods and their controllers until cancelled."""
    sets = cluster.Informer(client, ReplicaSet)
    wanted = cluster.Informer(client, Deployment)
    groups = cluster.Informer(client, LeaderWorkerSet, may_be_absent=True)
    revisions = cluster.Informer(client, api.ControllerRevision)
    leaders = leaderworkersets.LeaderWorkerSetController(client, events, groups, revisions, pods)
    async with asyncio.TaskGroup() as tasks:
        for informer in (sets, wanted, groups, revisions):
            tasks.create_task(informer.run())
        tasks.create_task(leaders.run())
        tasks.create_task(replicasets.ReplicaSetController(client, events, sets, pods).run())
        tasks.create_task(deployments.DeploymentController(client, events, wanted, sets, pods).run())


async def _drain(agent: Agent, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s + _LAST_WRITES_S):
            await agent.drain(timeout_s)
    except TimeoutError:
        log.warning("%d Pods did not end in time; their processes are killed", agent.pods)


async def _leave(node: registration.Registration) -> None:
    """Do not wait for the API server, which may be stopping as well."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LEAVE_S):
            await node.leave()


def _controls(given: registration.NodeConfig, client: cluster.Client, *, is_embedded: bool) -> bool:
    """Whether this node runs the controllers of workloads. Raises ConfigurationError if the server's own
    would do the same work."""
    if given.controllers is False:
        return False
    if given.controllers and not is_embedded:
        raise cluster.ConfigurationError(
            f"{client.server} has its own controllers and scheduler: start the node without --controllers"
        )
    return is_embedded


@contextlib.contextmanager
def _address_pool(given: registration.NodeConfig) -> Iterator[addresses.AddressPool | None]:
    state, network = given.state, given.pod_cidr
    if network is not None:
        if not addresses.is_local(network):
            raise cluster.ConfigurationError(
                f"the addresses of --pod-cidr {network} are not this machine's; on a single machine, "
                f"`ip route add local {network} dev lo` makes them so"
            )
        with addresses.claimed_block(str(state.resolve()), network) as block:
            yield addresses.AddressPool(network, first_block=block)
        return
    if not addresses.is_local():
        log.warning(
            "this system has no addresses in %s: each Pod gets a port of 127.0.0.1", addresses.NETWORK
        )
        yield None
        return
    with addresses.claimed_block(str(state.resolve())) as block:
        yield addresses.AddressPool(first_block=block)


@contextlib.contextmanager
def _only_user(state: Path) -> Iterator[None]:
    """Two nodes in one directory would end each other's processes."""
    lock = os.open(state / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        message = f"the state directory {state} is used by another node; stop it, or give --state another one"
        raise StateInUseError(message) from error
    try:
        yield
    finally:
        os.close(lock)
