"""All plugins, by their names in configurations."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.scheduling.plugins import (
    adapter_scorers,
    affinity,
    attributes,
    decision_tree,
    kthena,
    label_filters,
    latency,
    load_scorers,
    pickers,
    prefix_scorers,
    saturation,
    sessions,
)
from headgate.scheduling.plugins.plugin import Plugin

PICKER: Mapping[str, type[Plugin]] = {
    each.kind: each
    for each in (
        load_scorers.QueueScorer,
        load_scorers.RunningRequestsScorer,
        load_scorers.KvCacheUtilizationScorer,
        load_scorers.LoadAwareScorer,
        load_scorers.TokenLoadScorer,
        load_scorers.ActiveRequestScorer,
        adapter_scorers.LoraAffinityScorer,
        prefix_scorers.PrefixCacheScorer,
        prefix_scorers.PrecisePrefixCacheScorer,
        prefix_scorers.NoHitLruScorer,
        sessions.SessionAffinityScorer,
        latency.LatencyScorer,
        affinity.ContextLengthAware,
        affinity.HeaderLabelAffinityScorer,
        affinity.TopologyAffinityScorer,
        attributes.EndpointAttributeScorer,
        label_filters.LabelSelectorFilter,
        label_filters.ByLabelFilter,
        label_filters.PrefillFilter,
        label_filters.DecodeFilter,
        label_filters.EncodeFilter,
        latency.PrefixCacheAffinityFilter,
        latency.SloHeadroomTierFilter,
        attributes.UtilizationFilter,
        attributes.EndpointAttributeFilter,
        affinity.TopologyAffinityFilter,
        sessions.SessionAffinityFilter,
        decision_tree.DecisionTree,
        saturation.UtilizationDetector,
        saturation.ConcurrencyDetector,
        pickers.MaxScorePicker,
        pickers.RandomPicker,
        pickers.WeightedRandomPicker,
    )
}
"""The endpoint picker's plugins: scores from 0 to 1."""

KTHENA: Mapping[str, type[Plugin]] = {
    each.kind: each
    for each in (
        kthena.LeastRequest,
        kthena.LeastLatency,
        kthena.GpuUsage,
        kthena.PrefixCache,
        kthena.KvCacheAware,
        kthena.LoraAffinity,
        kthena.Random,
    )
}
"""Kthena's plugins: integer scores from 0 to 100."""
