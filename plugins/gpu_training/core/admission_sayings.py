"""What the API server says when it makes no pod, and what it means; quotas that are used up are read elsewhere."""

from __future__ import annotations

from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.sayings import says

_USAGE: Final = (
    r"(?P<bound>[Mm]aximum|[Mm]inimum) (?P<resource>\S{1,317}) usage per (?P<kind>\w{1,40}) is (?P<limit>[^\s,]{1,40}?)"
)

# What Go, gRPC, the API server and what is before them say of a call that failed, and may not fail again.
_TROUBLE: Final = (
    r"(?:i/o timeout|TLS handshake timeout|[Tt]imed out|[Rr]equest timeout|Client\.Timeout|Timeout: |context canceled"
    r"|deadline exceeded|request canceled|connection re(?:fused|set)|broken pipe|\bEOF\b|no such host"
    r"|server misbehaving|network is unreachable|no route to host|x509: |tls: |http2: |no endpoints available"
    r"|etcdserver: |the object has been modified|currently unable to handle the request|[Ll]eader changed"
    r"|not yet ready to handle request|[Ii]nternal (?:server )?error|[Tt]oo [Mm]any [Rr]equests|rate limit"
    r"|[Ss]ervice [Uu]navailable|temporarily|[Tt]ry again|[Bb]ad [Gg]ateway|[Gg]ateway [Tt]ime-?out"
    r"|code = (?:Unavailable|DeadlineExceeded|Internal|Aborted|Canceled|ResourceExhausted|Unknown)"
    r"|(?:[Ss]tatus(?: code)?|[Cc]ode)[:=]? ?(?:429|5\d\d)\b"
    r"|failed to sync|cache(?:s are|s? (?:is|was)|s? has)? not (?:yet )?(?:been )?(?:started|synced|ready))"
)

REFUSALS: Final = (
    # A webhook that has to ask others, such as a registry of signatures or the API server, says no when it can not.
    says(
        r'admission webhook "(?P<webhook>[^"]{1,253})" denied the request: (?=.{0,1000}?' + _TROUBLE + r")"
        r"(?P<words>.{1,400})",
        Cause.ADMISSION_DENIED,
        Cure.TRANSIENT,
        "Admission webhook {webhook} could not decide, and denies the pod: {words}",
        "Wait; if it stays so, whoever runs {webhook} has to look at what it asks.",
    ),
    # What others hold counts too: they give it back.
    says(
        r'admission webhook "(?P<webhook>[^"]{1,253})" denied the request: '
        r"(?=.{0,1000}?(?i:\bquotas?\b|\bbudgets?\b|\bcapacity\b(?![-_])|maintenance|\bfr(?:eeze|ozen)\b))(?P<words>.{1,400})",
        Cause.ADMISSION_DENIED,
        Cure.WAITING,
        "Admission webhook {webhook} denies the pod: {words}",
        "Wait, if others can give back what it asks for; or ask whoever runs {webhook}.",
    ),
    says(
        r'admission webhook "(?P<webhook>[^"]{1,253})" denied the request: (?P<words>.{1,400})',
        Cause.ADMISSION_DENIED,
        Cure.NEVER,
        "Admission webhook {webhook} denies the pod: {words}",
        "Change the training or its template to what {webhook} demands, or ask whoever runs it.",
    ),
    says(
        r'admission webhook "(?P<webhook>[^"]{1,253})" denied the request',
        Cause.ADMISSION_DENIED,
        Cure.WAITING,
        "Admission webhook {webhook} denies the pod, and does not say why.",
        "Ask whoever runs {webhook}.",
    ),
    # It could not be evaluated: what it takes as its parameters is away, or it is not right itself.
    says(
        r"ValidatingAdmissionPolicy '(?P<policy>[^']{1,253})'(?: with binding '(?P<binding>[^']{1,253})')?"
        r" denied request: (?P<words>(?:failed to configure |.{0,300}?resulted in error).{0,400})",
        Cause.ADMISSION_DENIED,
        Cure.WAITING,
        "Policy {policy} can not be applied, and denies the pod: {words}",
        "Have policy {policy} and its parameters looked after by whoever runs the cluster.",
    ),
    says(
        r"ValidatingAdmissionPolicy '(?P<policy>[^']{1,253})'(?: with binding '(?P<binding>[^']{1,253})')?"
        r" denied request: (?P<words>.{1,400})",
        Cause.ADMISSION_DENIED,
        Cure.NEVER,
        "Policy {policy} denies the pod: {words}",
        "Change the training or its template to what policy {policy} demands, or ask whoever runs the cluster.",
    ),
    says(
        r'failed calling (?:admission )?webhook "(?P<webhook>[^"]{1,253})"[:;] (?P<words>.{1,400})',
        Cause.WEBHOOK_UNREACHABLE,
        Cure.TRANSIENT,
        "Admission webhook {webhook} can not be asked: {words}",
        "Wait; if it stays so, whoever runs {webhook} has to bring it back.",
    ),
    says(
        r"failed quota: (?P<quota>[^\s:]{1,253}): must specify (?P<missing>.{1,400})",
        Cause.QUOTA_NEEDS_RESOURCES,
        Cure.NEVER,
        "Quota {quota} counts only pods whose containers all say what they ask for; missing: {missing}",
        "Give every container of the training and its template requests and limits, or a LimitRange with defaults.",
    ),
    says(
        _USAGE + r", but (?:limit|request) is (?P<asked>[^\s,\]]{1,40}?)\.?(?=[\s,\]]|$)",
        Cause.LIMIT_RANGE,
        Cure.NEVER,
        "A LimitRange of the namespace has a {bound} of {limit} {resource} per {kind}, and {asked} is asked for.",
        "Change {resource} of the training to what the LimitRange allows, or have it changed.",
    ),
    says(
        _USAGE + r"\. {1,3}No (?P<field>limit|request) is specified",
        Cause.LIMIT_RANGE,
        Cure.NEVER,
        "A LimitRange of the namespace has a {bound} of {limit} {resource} per {kind}, and no {field} is given.",
        "Give every container of the training and its template a {field} of {resource}.",
    ),
    says(
        r"(?P<resource>\S{1,317}) max limit to request ratio per (?P<kind>\w{1,40}) is (?P<limit>[^\s,]{1,40})",
        Cause.LIMIT_RANGE,
        Cure.NEVER,
        "A LimitRange of the namespace lets the limit of {resource} be at most {limit} times its request per {kind}.",
        "Bring requests and limits of {resource} closer together, or have the LimitRange changed.",
    ),
    says(
        r'violates PodSecurity "(?P<level>[^"]{1,100})": (?P<words>.{1,400})',
        Cause.POD_SECURITY,
        Cure.NEVER,
        "The namespace's Pod Security level {level} forbids the pod: {words}",
        "Set what it names in the training's template, or have the namespace's level changed.",
    ),
    says(
        r"unable to validate against any security context constraint: (?P<words>.{1,400})",
        Cause.POD_SECURITY,
        Cure.NEVER,
        "No security context constraint of the cluster allows the pod: {words}",
        "Set what it names in the training's template, or have a constraint granted to the service account.",
    ),
    # The first seconds of a namespace: its controller makes this account.
    says(
        r"error looking up service account (?P<namespace>[^\s/]{1,63})/default: .{0,100}not found",
        Cause.SERVICE_ACCOUNT_MISSING,
        Cure.TRANSIENT,
        "Namespace {namespace} has no service account `default` yet.",
        "Wait; Kubernetes makes it within seconds of the namespace.",
    ),
    says(
        r"error looking up service account (?P<namespace>[^\s/]{1,63})/(?P<account>[^\s:]{1,253}): .{0,253}not found",
        Cause.SERVICE_ACCOUNT_MISSING,
        Cure.NEVER,
        "Service account {account} does not exist in namespace {namespace}.",
        "Create it, or correct `service_account` of the training.",
    ),
    says(
        r'RuntimeClass "(?P<name>[^"]{1,253})" not found',
        Cause.RUNTIME_CLASS_MISSING,
        Cure.NEVER,
        "RuntimeClass {name} does not exist in the cluster.",
        "Take it out of the training, or have it installed (for GPUs the operator of their vendor brings it).",
    ),
    says(
        r"no PriorityClass with name (?P<name>\S{1,253}) was found",
        Cause.PRIORITY_CLASS_MISSING,
        Cure.NEVER,
        "PriorityClass {name} does not exist in the cluster.",
        "Create it, or correct `priority_class` of the training.",
    ),
    says(
        r"insufficient quota to (?:match these scopes|consume): (?P<words>.{1,400})",
        Cause.QUOTA_EXCEEDED,
        Cure.NEVER,
        "The namespace has no quota that admits such a pod: {words}",
        "Have a ResourceQuota made that covers it, or give the training another priority class.",
    ),
    says(
        r"status unknown for quota: (?P<quota>[^\s,]{1,253})|resource quota evaluat(?:es|ion) time"
        r"|fulfilled on resourcequotas \"(?P<same>[^\"]{1,253})\"",
        Cause.POD_REFUSED,
        Cure.TRANSIENT,
        "A quota of the namespace is being counted.",
        "Wait; it is tried again within seconds.",
    ),
    says(
        r"namespace (?P<namespace>\S{1,63}) because it is being terminated",
        Cause.POD_REFUSED,
        Cure.NEVER,
        "Namespace {namespace} is being deleted.",
        "Run the training in another namespace.",
    ),
    says(
        r"Pod \"[^\"]{1,253}\" is invalid: (?P<words>.{1,400})",
        Cause.POD_REFUSED,
        Cure.NEVER,
        "The pod is not valid: {words}",
        "Correct what it names in the training or its template.",
    ),
    says(
        r"^(?=.{0,4096}?" + _TROUBLE + r")(?P<words>.{1,400})",
        Cause.POD_REFUSED,
        Cure.TRANSIENT,
        "The API server is in trouble: {words}",
        "Wait; it is tried again.",
    ),
)
