"""A validating admission webhook: the rules that an API server cannot enforce by definitions and policies.

Input: AdmissionReviews of an API server, and its objects. Output: rejections with Kubernetes' messages, and
warnings that kubectl prints. It issues and renews its certificates itself: one of several processes writes
them to a Secret, and their CAs to the ValidatingWebhookConfiguration, before any process serves them.
"""

from headgate.webhook.service import WebhookConfig, run_webhook

__all__ = ["WebhookConfig", "run_webhook"]
