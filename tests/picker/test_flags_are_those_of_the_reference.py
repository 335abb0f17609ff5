"""`headgate picker` takes the command line of the reference implementation, of all its versions."""

import click
import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.cli.picker.command import picker
from headgate.cli.picker.settings import from_flags

CONFIG = """
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: max-score-picker
"""


def settings(*args):
    context = picker.make_context("picker", list(args))
    given = dict(context.params)
    given.pop("state")
    return from_flags(given.pop("kubeconfig"), given)


def test_the_defaults():
    """All pools of the namespace, with TLS."""
    found = settings()
    assert (found.pools.names, found.pools.namespace) == ((), "default")
    listening = found.listening
    assert (listening.grpc_port, listening.health_port, listening.metrics_port) == (9002, 9003, 9090)
    assert listening.is_secure
    assert found.drain_s == 30


@pytest.mark.parametrize(
    "args",
    [
        ("--pool-name", "p", "--pool-namespace=n", "--grpc-port=1", "--secure-serving=false"),
        ("--poolName=p", "--poolNamespace", "n", "--grpcPort", "1", "--secureServing=false"),
        ("-poolName", "p", "-poolNamespace=n", "-grpcPort=1", "-secureServing=false"),
        ("--serverPoolName", "p", "--namespace", "n", "--port", "1", "--secure-serving", "false"),
    ],
)
def test_names_of_all_versions(args):
    """With one dash or two, a space or an equals sign."""
    found = settings(*args)
    assert (found.pools.names, found.pools.namespace) == (("p",), "n")
    assert (found.listening.grpc_port, found.listening.is_secure) == (1, False)


def test_the_command_line_of_its_chart(caplog):
    """What has no effect here is accepted with a warning."""
    found = settings(
        *("--pool-name", "llama", "--pool-namespace", "default", "--v", "4", "--zap-encoder", "json"),
        *("--grpc-port", "9002", "--grpc-health-port", "9003", "--metrics-port", "9090"),
        *("--tracing=false", "--ha-enable-leader-election", "--metrics-endpoint-auth=false"),
        *(
            "--refresh-metrics-interval",
            "50ms",
            "--metrics-staleness-threshold",
            "2s",
            "--drain-timeout=1m30s",
        ),
    )
    assert found.pools.names == ("llama",)
    assert (found.engine_metrics.interval_s, found.engine_metrics.stale_s, found.drain_s) == (0.05, 2, 90)
    warned = [record.getMessage().partition(" has no effect")[0] for record in caplog.records]
    assert found.tracing is None
    assert warned == ["--zap-encoder", "--ha-enable-leader-election", "--metrics-endpoint-auth"]


@pytest.mark.parametrize(
    "flag",
    ["--total-queued-requests-metric=x", "--loraInfoMetric=x", "--model-server-metrics-port=8000"],
)
def test_removed_flags_are_refused(flag):
    """With what to do instead."""
    result = CliRunner().invoke(main, ["picker", flag])
    assert result.exit_code == 2
    assert "is not supported: " in result.output


def test_selectors_replace_pools():
    """--endpoint-selector and --endpoint-target-ports."""
    found = settings("--endpoint-selector", "app=vllm,tier=gpu", "--endpoint-target-ports", "8000, 8001")
    assert found.pools.selector == {"app": "vllm", "tier": "gpu"}
    assert found.pools.ports == (8000, 8001)
    for wrong in (
        ("--endpoint-selector", "app=vllm"),
        ("--endpoint-selector", "app=vllm", "--endpoint-target-ports", "8000", "--pool-name", "p"),
        ("--endpoint-selector", "vllm", "--endpoint-target-ports", "8000"),
        ("--endpoint-selector", "app=vllm", "--endpoint-target-ports", "0"),
        ("--endpoint-selector", "app=vllm", "--endpoint-target-ports", "1,2,3,4,5,6,7,8,9"),
    ):
        with pytest.raises(click.UsageError):
            settings(*wrong)


def test_the_configuration_of_plugins(tmp_path):
    """From a file or from the command line; B56: errors name what is wrong."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    assert (
        settings("--config-file", str(file)).scheduling.content
        == settings("--config-text", CONFIG).scheduling.content
    )
    for text, wrong in (
        (CONFIG.replace("queue-scorer", "queue-scorers"), "queue-scorers"),
        (CONFIG.replace("plugins:\n- type: queue", "plugin:\n- type: queue"), "plugin"),
        (CONFIG.replace("pluginRef: queue-scorer", "pluginRef: other"), "other"),
        (CONFIG.replace("type: max-score-picker", "type: queue-scorer"), "queue-scorer"),
        (
            CONFIG.replace(
                "plugins:\n- type: queue",
                "plugins:\n- type: single-profile-handler\n- type: disagg-profile-handler\n- type: queue",
            ),
            "disagg-profile-handler",
        ),
    ):
        with pytest.raises(click.ClickException, match=wrong) as refused:
            settings("--config-text", text)
        assert "--config-text:" in click.unstyle(refused.value.message)
    with pytest.raises(click.UsageError, match="replaces"):
        settings("--config-file", str(file), "--config-text", CONFIG)


def test_the_parser_that_reads_no_bodies():
    """B16: it counts if it is the only one."""
    parsers = "requestHandler: {parsers: [%s]}\n"
    passing = CONFIG.replace("plugins:", "plugins:\n- type: passthrough-parser\n  name: raw", 1)
    assert settings("--config-text", passing + parsers % "{pluginRef: raw}").choices.passes_bodies
    both = parsers % "{pluginRef: raw}, {pluginRef: openai-parser}"
    for text in (CONFIG, passing, passing + both):
        assert not settings("--config-text", text).choices.passes_bodies


def test_versions_and_ciphers_of_tls():
    """By Go's names; those that HTTP/2 does not allow are refused, and those of TLS 1.3 are always on."""
    assert settings().listening.tls_min_version == "1.2"
    assert settings("--tls-min-version=VersionTLS13").listening.tls_min_version == "1.3"
    names = (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256"
    )
    found = settings("--tls-cipher-suites", names).listening.tls_ciphers
    assert found == ("ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256")
    for wrong in (
        ("--tls-min-version", "VersionTLS11"),
        ("--tls-cipher-suites", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ):
        with pytest.raises(click.BadParameter):
            settings(*wrong)


def test_scores_of_endpoints():
    """--emit-endpoint-scores."""
    assert not settings().choices.emits_scores
    assert settings("--emit-endpoint-scores").choices.emits_scores
