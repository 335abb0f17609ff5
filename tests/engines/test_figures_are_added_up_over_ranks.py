"""What a page says of its engine, over all the series of a figure: no rank is lost, none counted twice."""

import pytest

from headgate import engines

VLLM = engines.named("vLLM").metrics
SGLANG = engines.named("SGLang").metrics
TRTLLM = engines.named("trtllm").metrics


def read(text, names=VLLM):
    return engines.read(text.encode(), names)


def test_a_plain_page_is_read():
    """One rank, one model, the names of today."""
    figures = read(
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
        "# TYPE vllm:num_requests_waiting gauge\n"
        'vllm:num_requests_waiting{engine="0",model_name="m"} 2.0\n'
        "# TYPE vllm:num_requests_waiting_by_reason gauge\n"
        'vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0\n'
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25\n'
        "# TYPE vllm:time_to_first_token_seconds histogram\n"
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 4.0\n'
        'vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 4.0\n'
        'vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1.5\n'
        "# TYPE vllm:cache_config_info gauge\n"
        'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="27000"} 1.0\n'
        "process_start_time_seconds 1.7e+09\n"
    )
    assert (figures.running, figures.waiting, figures.kv_usage) == (3, 2, 0.25)
    assert figures.ttft == (1.5, 4)
    assert figures.tpot is None
    assert (figures.block_tokens, figures.blocks) == (16, 27_000)
    assert figures.started_at == 1.7e9
    assert figures.malformed == 0
    assert figures.says_load


@pytest.mark.parametrize(
    ("names", "page", "figure", "value"),
    [
        (VLLM, "vllm:gpu_cache_usage_perc 0.5", "kv_usage", 0.5),
        (VLLM, "vllm:gpu_cache_usage_perc 0.9\nvllm:kv_cache_usage_perc 0.5", "kv_usage", 0.5),
        (
            VLLM,
            "vllm:time_per_output_token_seconds_count 2\nvllm:time_per_output_token_seconds_sum 0.1",
            "tpot",
            (0.1, 2),
        ),
        (SGLANG, "sglang_num_queue_reqs 4", "waiting", 4),
        (SGLANG, "sglang:num_running_reqs 4", "running", 4),
        (SGLANG, "sglang:token_usage 0.5", "kv_usage", 0.5),
        (SGLANG, 'sglang:cache_config_info{page_size="64",num_pages="900"} 1', "blocks", 900),
        (SGLANG, "sglang:page_size 64\nsglang:num_pages 900", "blocks", 900),
        (SGLANG, "sglang:lora_pool_slots_total 8", "max_adapters", 8),
        (TRTLLM, "trtllm_num_requests_waiting 4", "waiting", 4),
        (TRTLLM, "trtllm_kv_cache_tokens_per_block 32\ntrtllm_kv_cache_max_blocks 100", "block_tokens", 32),
    ],
)
def test_names_of_older_releases_are_known(names, page, figure, value):
    """No upgrade or downgrade makes a figure vanish; where both names are, the newer counts."""
    assert getattr(read(page + "\n", names), figure) == value


def test_queues_of_data_parallel_ranks_are_summed():
    """Taking one of the series, the last or the first, would lose the work of all others."""
    figures = read(
        "".join(
            f'vllm:num_requests_waiting{{engine="{rank}"}} {rank}\n'
            f'vllm:num_requests_running{{engine="{rank}"}} 2\n'
            for rank in range(4)
        )
    )
    assert figures.waiting == 0 + 1 + 2 + 3
    assert figures.running == 8


def test_usage_of_the_cache_is_weighed_by_the_blocks_of_each_rank():
    """A full small cache beside an empty large one is not half of all."""
    usage = 'vllm:kv_cache_usage_perc{engine="0"} 1\nvllm:kv_cache_usage_perc{engine="1"} 0\n'
    sizes = (
        'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100"} 1\n'
        'vllm:cache_config_info{engine="1",block_size="16",num_gpu_blocks="300"} 1\n'
    )
    assert read(usage + "# \n" + sizes).kv_usage == 0.25
    assert read(usage + "# \n" + sizes).blocks == 400
    assert read(usage).kv_usage == 0.5


def test_processes_of_one_rank_tell_of_one_queue():
    """SGLang can let each tensor-parallel process write its own series of what they share."""
    page = "".join(
        f'sglang:num_queue_reqs{{dp_rank="{dp}",tp_rank="{tp}",moe_ep_rank="{tp}",pp_rank="0"}} {5 + dp}\n'
        for dp in range(2)
        for tp in range(4)
    )
    assert read(page, SGLANG).waiting == 5 + 6


def test_priorities_are_parts_of_the_total_beside_them():
    """SGLang's series with an empty priority has all requests."""
    page = (
        'sglang:num_queue_reqs{tp_rank="0",priority=""} 5\n'
        'sglang:num_queue_reqs{tp_rank="0",priority="1"} 3\n'
        'sglang:num_queue_reqs{tp_rank="0",priority="None"} 2\n'
    )
    assert read(page, SGLANG).waiting == 5


def test_models_of_one_engine_are_summed():
    """Several series by model name are requests of one engine."""
    page = 'vllm:num_requests_running{model_name="a"} 1\nvllm:num_requests_running{model_name="b"} 2\n'
    assert read(page).running == 3


def test_a_figure_that_is_missing_is_unknown():
    """It is not 0, which would make the endpoint look idle."""
    figures = read("vllm:num_requests_running 1\n")
    assert figures.waiting is None
    assert figures.kv_usage is None
    assert figures.blocks is None
    assert not read("go_goroutines 12\n").says_load


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "x", ""])
def test_a_figure_that_cannot_be_true_is_unknown(value):
    """Nor is it left out of the sum, which then would be too small."""
    good = 'vllm:num_requests_waiting{engine="0"} 4\n'
    figures = read(good + f'vllm:num_requests_waiting{{engine="1"}} {value}\nvllm:num_requests_running 1\n')
    assert figures.waiting is None
    assert figures.running == 1
    assert figures.malformed == 1


@pytest.mark.parametrize(("value", "usage"), [("1.0001", 1.0), ("37.5", None), ("-0.1", None)])
def test_usage_is_a_share(value, usage):
    """A percentage is not taken for one."""
    assert read(f"vllm:kv_cache_usage_perc {value}\n").kv_usage == usage


def test_the_newest_series_says_which_adapters_are_in_use():
    """Each combination stays on the page for ever, with the time when it was first seen."""
    figures = read(
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters="a",waiting_lora_adapters=""} 1.7e+09\n'
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters="b, c",waiting_lora_adapters="d"} 1.8e9\n'
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters="e"} 1.75e+09\n'
    )
    assert figures.adapters_running == {"b", "c"}
    assert figures.adapters_waiting == {"d"}
    assert figures.max_adapters == 4
    assert figures.malformed == 0


@pytest.mark.parametrize("limit", ["", "four", "-4", "4.0", "9" * 40])
def test_an_unreadable_limit_of_adapters_costs_nothing_else(limit):
    """It is counted, and the adapters are known all the same."""
    figures = read(
        f'vllm:lora_requests_info{{max_lora="{limit}",running_lora_adapters="a",waiting_lora_adapters=""}} 1'
    )
    assert figures.max_adapters is None
    assert figures.adapters_running == {"a"}
    assert figures.malformed == 1


def test_a_cache_of_unknown_size_is_unknown():
    """Some releases write None until the engine has measured its memory."""
    figures = read('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n')
    assert (figures.block_tokens, figures.blocks) == (16, None)


def test_a_histogram_with_half_of_its_series_is_not_read():
    """A sum over two ranks and a count of one would be a wrong mean."""
    page = (
        'vllm:time_to_first_token_seconds_count{engine="0"} 4\n'
        'vllm:time_to_first_token_seconds_sum{engine="0"} 1\n'
        'vllm:time_to_first_token_seconds_sum{engine="1"} 1\n'
    )
    assert read(page).ttft is None
    assert read(page).malformed == 1


def test_sums_beyond_all_time_are_malformed():
    """Seconds that overflow as milliseconds would fail those who reckon with them."""
    name = "vllm:time_to_first_token_seconds"
    assert read(f"{name}_count 4\n{name}_sum 1e307\n") == engines.Figures(malformed=1)
    assert read(f"{name}_count 4\n{name}_sum 1e6\n").ttft == (1e6, 4)


def test_only_vllm_counts_first_tokens_that_nobody_sees():
    """Other engines count those of responses in one piece later, or have no such histogram."""
    page = b"%b_count 4\n%b_sum 2\n"
    for name, is_told in (("vLLM", True), ("SGLang", False)):
        names = engines.named(name).metrics
        figures = engines.read(page.replace(b"%b", names.ttft[0].encode()), names)
        assert figures.ttft == engines.Total(2.0, 4.0)
        assert figures.ttft_is_of_all is is_told
