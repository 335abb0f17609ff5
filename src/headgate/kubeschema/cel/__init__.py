"""CEL as Kubernetes writes it in rules of CustomResourceDefinitions.

Given a rule's text it hands on an `Expression`, which evaluates `self` and `oldSelf`; a rule that does not
compile, or that needs what is not supported, is a `CelError` when it is registered.
"""

from headgate.kubeschema.cel.programs import MISSING, CelError, Expression, compiled

__all__ = ["MISSING", "CelError", "Expression", "compiled"]
