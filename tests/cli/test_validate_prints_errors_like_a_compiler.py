"""`headgate validate` prints each mistake with its place, its line, carets under it, and the remedy."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result

from headgate.cli import main

ROUTE = """\
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {name: chat}
spec:
  modelName: chat
  rules:
  - name: all
    targetModels:
    - modelServerName: chat
"""
SERVER = """\
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelServer
metadata: {name: chat}
spec:
  inferenceEngine: vLLM
  model: m
  workloadSelector:
    matchLabels: {app: chat}
  workloadPort: {port: 8000}
"""


def validate(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=stdin, catch_exceptions=False)


def refused(text: str, *arguments: str) -> str:
    """The output for a text on standard input that must have errors."""
    result = validate("-f", "-", *arguments, stdin=dedent(text))
    assert result.exit_code == 1, result.output
    return result.output


def test_valid_manifests_are_counted() -> None:
    """Nothing to say but how much was checked."""
    result = validate("-f", "-", stdin=f"{ROUTE}---\n{SERVER}")
    assert (result.exit_code, result.output) == (0, "2 objects in 1 file: valid\n")


def test_every_mistake_of_all_documents_is_shown_at_once() -> None:
    """One run tells everything: an unknown field, a bound, an enum, a type, in two documents."""
    output = refused(
        """\
        apiVersion: networking.volcano.sh/v1alpha1
        kind: ModelRoute
        metadata: {name: chat}
        spec:
          modelName: chat
          rules:
          - name: all
            targetModels:
            - modelServerName: chat
              wieght: 50
              weight: 150
        ---
        apiVersion: networking.volcano.sh/v1alpha1
        kind: ModelRoute
        metadata:
          name: more
          namespace: prod
        spec:
          modelName: 8
          rules: []
          rateLimit: {unit: Minutes, inputTokensPerUnit: "8000"}
        """
    )
    assert output == dedent(
        """\
        <stdin>:9:24: warning: ModelRoute default/chat: spec.rules[0].targetModels[0].modelServerName: there is no ModelServer default/chat among these manifests; requests for it fail until there is
            9 |     - modelServerName: chat
              |                        ^^^^

        <stdin>:10:7: error: ModelRoute default/chat: spec.rules[0].targetModels[0].wieght: unknown field
           10 |       wieght: 50
              |       ^^^^^^
          fix: did you mean weight?

        <stdin>:11:15: error: ModelRoute default/chat: spec.rules[0].targetModels[0].weight: Invalid value: 150: should be less than or equal to 100
           11 |       weight: 150
              |               ^^^

        <stdin>:13:1: note: ModelRoute prod/more: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation

        <stdin>:19:14: error: ModelRoute prod/more: spec.modelName: must be of type string, not integer
           19 |   modelName: 8
              |              ^
          fix: put it in quotes: "8"

        <stdin>:20:10: warning: ModelRoute prod/more: spec.rules: is empty: every request for this route is answered with 404
           20 |   rules: []
              |          ^^

        <stdin>:21:21: error: ModelRoute prod/more: spec.rateLimit.unit: Unsupported value: "Minutes": supported values: "second", "minute", "hour", "day", "month"
           21 |   rateLimit: {unit: Minutes, inputTokensPerUnit: "8000"}
              |                     ^^^^^^^
          fix: did you mean minute?

        <stdin>:21:50: error: ModelRoute prod/more: spec.rateLimit.inputTokensPerUnit: must be of type integer, not string
           21 |   rateLimit: {unit: Minutes, inputTokensPerUnit: "8000"}
              |                                                  ^^^^^^
          fix: write it without quotes: 8000

        2 objects in 1 file: 5 errors, 2 warnings, 1 note
        """  # noqa: E501
    )


def test_a_missing_field_is_explained() -> None:
    """The place is that of the mapping that lacks it; the remedy says what the field is for."""
    output = refused(SERVER.replace("  inferenceEngine: vLLM\n", ""))
    assert "<stdin>:4:1: error: ModelServer default/chat: spec.inferenceEngine: Required value" in output
    assert "    4 | spec:\n      | ^^^^\n  fix: add inferenceEngine: " in output


def test_a_rule_across_fields_is_told_at_its_object() -> None:
    """CEL rules of the kind run once the fields are right."""
    output = refused(ROUTE.replace("  modelName: chat\n", ""))
    assert "<stdin>:4:1: error: ModelRoute default/chat: spec: Invalid value: " in output


def test_a_rule_about_the_whole_object_is_an_error_at_its_first_line() -> None:
    """It has no field; that makes it no less of an error."""
    output = refused(
        """\
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: boats.example.com}
        spec:
          group: example.com
          scope: Namespaced
          names: {plural: boats, kind: Boat}
          versions:
          - name: v1
            served: true
            storage: true
            schema:
              openAPIV3Schema:
                type: object
                x-kubernetes-validations: [{rule: "self.spec.masts > 1", message: too few masts}]
                properties: {spec: {type: object, properties: {masts: {type: integer}}}}
        ---
        apiVersion: example.com/v1
        kind: Boat
        metadata: {name: a}
        spec: {masts: 1}
        """
    )
    assert "<stdin>:18:1: error: Boat default/a: too few masts" in output


def test_a_field_at_the_wrong_level_is_sent_to_the_right_one() -> None:
    """A known name in a wrong place says where it belongs."""
    output = refused(ROUTE.replace("  - name: all\n", "  - name: all\n    weight: 5\n"))
    assert "fix: weight is a field of spec.rules[].targetModels[]" in output


def test_a_syntax_error_hides_no_other_document() -> None:
    """Documents are read on their own: the one after a broken one is judged as well."""
    output = refused(f"a: [1,\n---\n{ROUTE.replace('chat', 'Chat', 1)}---\nb: 'x\n")
    assert "<stdin>:2:1: error: not YAML: did not find expected node content" in output
    assert "<stdin>:5:18: error: ModelRoute default/Chat: metadata.name: Invalid value" in output
    assert "(while scanning a quoted scalar that begins in line 13)\n" in output
    assert "  fix: close the quotes\n" in output


def test_a_tab_is_named() -> None:
    """The most common reason for YAML that no reader takes."""
    output = refused("a:\n\tb: c\n")
    assert "    2 |     b: c\n      | ^\n  fix: YAML is indented with spaces: replace the tab" in output


def test_a_duplicate_key_is_an_error() -> None:
    """Readers would keep the last one silently."""
    output = refused(f"{SERVER}  model: n\n")
    assert '<stdin>:10:3: error: duplicate key "model", already on line 6\n' in output


def test_an_object_defined_twice_is_an_error() -> None:
    """Also across files and versions; the namespace that is meant by none counts."""
    output = refused(f"{ROUTE}---\n{ROUTE.replace('{name: chat}', '{name: chat, namespace: default}')}")
    assert (
        "error: ModelRoute default/chat: metadata.name: defined twice: <stdin>:1 defines the same object"
        in output
    )


@pytest.mark.parametrize(
    ("api_version", "kind", "severity", "told"),
    [
        ("networking.volcano.sh/v1alpha1", "ModelRout", "error", "did you mean ModelRoute?"),
        (
            "networking.volcano.sh/v1beta1",
            "ModelRoute",
            "error",
            "did you mean apiVersion: networking.volcano.sh/v1alpha1?",
        ),
        ("apps/v1beta1", "Deployment", "warning", "no longer served by Kubernetes: use apiVersion: apps/v1"),
        ("v1", "Deployment", "warning", "did you mean apiVersion: apps/v1?"),
        ("apps/v1", "Deploymnt", "warning", "did you mean Deployment?"),
        ("example.com/v1", "Frob", "note", "pass its CustomResourceDefinition with --crd FILE"),
    ],
)
def test_an_unknown_kind_is_told_by_how_near_it_is(
    api_version: str, kind: str, severity: str, told: str
) -> None:
    """Ours must be right; what is probably meant is asked for; the rest is skipped with a note."""
    result = validate("-", stdin=f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n")
    assert result.exit_code == (severity == "error")
    assert f": {severity}: {kind} default/x: " in result.output
    assert told in result.output


def test_what_is_legal_but_will_not_work_is_a_warning() -> None:
    """The rules of the API server, over all of the manifests together."""
    result = validate("-", stdin=ROUTE)
    assert result.exit_code == 0
    assert result.output == dedent(
        """\
        <stdin>:9:24: warning: ModelRoute default/chat: spec.rules[0].targetModels[0].modelServerName: there is no ModelServer default/chat among these manifests; requests for it fail until there is
            9 |     - modelServerName: chat
              |                        ^^^^

        1 object in 1 file: 1 warning
        """  # noqa: E501
    )


def test_strict_takes_warnings_for_errors() -> None:
    """For continuous integration that lets nothing pass."""
    text = "apiVersion: v1\nkind: Deployment\nmetadata: {name: x}\n"
    assert validate("-", stdin=text).exit_code == 0
    assert validate("--strict", "-", stdin=text).exit_code == 1


def test_json_is_a_list_for_programs() -> None:
    """Every finding with file, line, column, path, severity, message and suggestion."""
    found = json.loads(refused(SERVER.replace("vLLM", "vllm"), "-o", "json"))
    assert [each for each in found if each["severity"] == "error"] == [
        {
            "file": "<stdin>",
            "line": 5,
            "column": 20,
            "object": "ModelServer default/chat",
            "path": "spec.inferenceEngine",
            "severity": "error",
            "message": 'Unsupported value: "vllm": supported values: "vLLM", "SGLang"',
            "suggestion": "did you mean vLLM?",
        }
    ]


def test_github_shows_findings_at_the_lines_of_a_pull_request() -> None:
    """As workflow commands."""
    told = refused(SERVER.replace("vLLM", "vllm"), "-o", "github").splitlines()
    assert (
        "::error file=<stdin>,line=5,col=20::ModelServer default/chat: spec.inferenceEngine: "
        'Unsupported value: "vllm": supported values: "vLLM", "SGLang"; did you mean vLLM?'
    ) in told


def test_directories_are_read_deeply_only_when_asked(tmp_path: Path) -> None:
    """As kubectl's -R."""
    (tmp_path / "a.yaml").write_text(SERVER)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.yml").write_text(ROUTE)
    assert validate("-f", str(tmp_path)).output == "1 object in 1 file: valid\n"
    assert validate("-R", "-f", str(tmp_path)).output == "2 objects in 2 files: valid\n"


def test_definitions_make_more_kinds_known(tmp_path: Path) -> None:
    """From --crd, or among the manifests themselves."""
    definition = dedent(
        """\
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: frobs.example.com}
        spec:
          group: example.com
          scope: Cluster
          names: {kind: Frob, plural: frobs}
          versions:
          - name: v1
            served: true
            storage: true
            schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer, maximum: 3}}}}
        """
    )
    (tmp_path / "crd.yaml").write_text(definition)
    frob = "apiVersion: example.com/v1\nkind: Frob\nmetadata: {name: x}\nsize: 5\n"
    told = "error: Frob x: size: Invalid value: 5: should be less than or equal to 3"
    assert told in refused(frob, "--crd", str(tmp_path / "crd.yaml"))
    assert told in refused(f"{frob}---\n{definition}")


def test_without_manifests_it_is_a_usage_error(tmp_path: Path) -> None:
    """Exit code 2 for a command that was most likely mistyped."""
    assert validate().exit_code == 2
    result = validate("-f", str(tmp_path))
    assert result.exit_code == 2
    assert "-R searches directories recursively" in result.output


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    """Escape sequences in a file reach no terminal."""
    output = refused(SERVER.replace("vLLM", '"\\e[31mred\\a"').replace("model: m", "mödel: 名"))
    assert "\x1b" not in output
    assert "\a" not in output
    assert "    6 |   mödel: 名\n      |   ^^^^^\n" in output


SERVER_WITH = """
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelServer
metadata: {{name: s}}
spec:
  inferenceEngine: vLLM
  workloadSelector: {{matchLabels: {{app: s}}}}
  {field}
"""
ROUTE_WITH = """
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {{name: r}}
spec:
  modelName: m
  rules:
  - targetModels: [{{modelServerName: s}}]
    {field}
"""


@pytest.mark.parametrize(
    ("text", "field", "fix"),
    [
        (SERVER_WITH, "trafficPolicy: {timeout: 60}", "write 60s"),
        (SERVER_WITH, 'trafficPolicy: {timeout: "60"}', "write 60s"),
        (SERVER_WITH, "trafficPolicy: {timeout: 1.5}", "write 1.5s"),
        (SERVER_WITH, "trafficPolicy: {retry: {attempts: 1, retryInterval: 1 s}}", "write 1s"),
        (SERVER_WITH, "model: 8", 'put it in quotes: "8"'),
        (SERVER_WITH, "model: [m]", "write the one item by itself: m"),
        (SERVER_WITH, "workloadPort: 8000", "write a mapping with port, protocol, such as {port: 8000}"),
        (SERVER_WITH, "workloadPort: {port: 8k}", "write a number: 8000"),
        (
            ROUTE_WITH,
            "modelMatch: {headers: {x-tier: gold}}",
            "write a mapping with exact, prefix, regex, such as {exact: gold}",
        ),
    ],
)
def test_a_value_of_the_wrong_form_is_answered_with_the_right_one(text: str, field: str, fix: str) -> None:
    """As it can be written into the file."""
    assert f"  fix: {fix}\n" in refused(text.format(field=field))


def test_labels_without_their_mapping_are_sent_there() -> None:
    """The most common slip in a selector."""
    text = SERVER_WITH.format(field="workloadPort: {port: 80}").replace("{matchLabels: {app: s}}", "{app: s}")
    assert "  fix: put it under matchLabels: matchLabels: {app: s}\n" in refused(text)


def test_a_name_that_is_no_name_is_answered_with_one() -> None:
    """In lower case, with dashes."""
    text = SERVER_WITH.format(field="workloadPort: {port: 80}").replace("name: s}", "name: My_Server}")
    assert "  fix: did you mean my-server?\n" in refused(text)


def test_a_server_that_does_not_exist_is_answered_with_the_one_that_does() -> None:
    """Among the manifests."""
    text = SERVER_WITH.format(field="workloadPort: {port: 80}").replace("name: s}", "name: chat-large}")
    text += "---" + ROUTE_WITH.format(field="").replace("modelServerName: s", "modelServerName: chat-lrge")
    output = validate("-f", "-", stdin=text).output
    assert "there is no ModelServer default/chat-lrge among these manifests" in output
    assert "  fix: did you mean chat-large?\n" in output


def test_a_kind_in_lower_case_is_an_error() -> None:
    """A server would refuse it, whatever else it serves."""
    output = refused("apiVersion: apps/v1\nkind: deployment\nmetadata: {name: d}\n")
    assert "error: deployment default/d: kind: there is no kind deployment in apps/v1" in output
    assert "  fix: did you mean Deployment?\n" in output


def test_days_become_hours() -> None:
    """Go's durations, which the API takes, have no days."""
    output = refused(f"{SERVER}  trafficPolicy: {{timeout: 1d}}\n")
    assert "spec.trafficPolicy.timeout" in output
    assert "  fix: write 24h\n" in output


def test_many_servers_with_one_selector_are_told_once() -> None:
    """Not once for each of them, and still less for each pair; a few are named."""
    several = "---\n".join(SERVER.replace("name: chat", f"name: s-{number:02}") for number in range(10))
    other = SERVER.replace("name: chat", "name: twin").replace("app: chat", "app: twin")
    result = validate("-f", "-", stdin=f"{several}---\n{other}---\n{other.replace('twin}', 'twin-2}', 1)}")
    assert result.exit_code == 0
    assert result.output.count("warning:") == 2
    assert (
        "ModelServer default/s-00: spec.workloadSelector.matchLabels: ModelServer default/s-01, "
        "ModelServer default/s-02, ModelServer default/s-03 and 6 others select the same Pods\n"
    ) in result.output
    assert "ModelServer default/twin-2 selects the same Pods\n" in result.output
