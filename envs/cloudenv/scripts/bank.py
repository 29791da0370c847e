# ruff: noqa: E501 - one task stands on few lines
"""The task bank: which template, which faults, and what the agent is told. make_tasks.py writes the files.

The texts say what somebody noticed, never what to do. Checked by hand: each can be told from the state alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One task. faults: (resource id, fault id); names: seed of the resource names."""

    id: str
    level: str
    template: str
    names: int
    faults: tuple[tuple[str, str], ...]
    title: str
    told: str


def _entry(task: str, template: str, names: int, title: str, told: str, *faults: str) -> Entry:
    pairs = tuple((f.split(" ")[0], f.split(" ")[1]) for f in faults)
    return Entry(task, task.split("-")[0], template, names, pairs, title, told)


BANK = (
    # easy: one control of one resource
    _entry(
        "easy-task-1",
        "seed",
        0,
        "Plain http",
        "The audit says that data of this bucket can be read over plain http.",
        "s3:bucket_1 S3_NO_TLS_POLICY",
    ),
    _entry(
        "easy-public-bucket",
        "bucket",
        1,
        "Open to everybody",
        "A search engine lists files of this bucket; only its owner should read them.",
        "s3:bucket_1 S3_PUBLIC_POLICY",
    ),
    _entry(
        "easy-block-off",
        "bucket",
        2,
        "No safety net",
        "Nothing would stop somebody from making this bucket public by mistake.",
        "s3:bucket_1 S3_PUBLIC_ACCESS_BLOCK_OFF",
    ),
    _entry(
        "easy-versions-lost",
        "bucket",
        3,
        "Overwritten for good",
        "A file was overwritten, and the older version cannot be found.",
        "s3:bucket_1 S3_VERSIONING_OFF",
    ),
    _entry(
        "easy-archive-key",
        "archive",
        4,
        "Not with our key",
        "New objects of the archive are not encrypted with the key management service.",
        "s3:bucket_1 S3_ENCRYPTION_NOT_KMS",
    ),
    _entry(
        "easy-archive-unlogged",
        "archive",
        5,
        "Who read it?",
        "Nobody can say who read the archive last week: its access is logged nowhere.",
        "s3:bucket_1 S3_LOGGING_OFF",
    ),
    _entry(
        "easy-queue-plain",
        "queue",
        6,
        "Readable at rest",
        "The queue of jobs holds messages without encryption.",
        "sqs:queue_1 SQS_NOT_ENCRYPTED",
    ),
    _entry(
        "easy-queue-forgets",
        "queue",
        7,
        "Failed jobs vanish",
        "Failed jobs are gone before anybody has looked at them; two weeks are agreed.",
        "sqs:queue_2 SQS_RETENTION_SHORT",
    ),
    _entry(
        "easy-queue-public",
        "inbox",
        8,
        "Spam on the queue",
        "Strangers put messages on the queue of new files.",
        "sqs:queue_1 SQS_PUBLIC_POLICY",
    ),
    _entry(
        "easy-role-admin",
        "ingest",
        9,
        "More than it needs",
        "The function's role may do anything in the account.",
        "iam:role_1 IAM_INLINE_ADMIN",
    ),
    _entry(
        "easy-role-anybody",
        "ingest",
        10,
        "Anybody's role",
        "People outside the company could take the function's role.",
        "iam:role_1 IAM_TRUST_ANYBODY",
    ),
    _entry(
        "easy-function-public",
        "ingest",
        11,
        "Called by strangers",
        "The function is invoked by callers nobody knows.",
        "lambda:function_1 LAMBDA_PUBLIC",
    ),
    _entry(
        "easy-function-secret",
        "worker",
        12,
        "A password in sight",
        "A password can be read in the configuration of the function; the function does not even use it.",
        "lambda:function_1 LAMBDA_SECRET_IN_ENV",
    ),
    _entry(
        "easy-table-recovery",
        "ingest",
        13,
        "No way back",
        "The table could not be brought back to yesterday.",
        "dynamodb:table_1 DYNAMODB_NO_RECOVERY",
    ),
    _entry(
        "easy-table-unprotected",
        "worker",
        14,
        "One click",
        "One careless click would delete the table.",
        "dynamodb:table_1 DYNAMODB_UNPROTECTED",
    ),
    _entry(
        "easy-ssh-open",
        "groups",
        15,
        "Knocking on port 22",
        "Login attempts from all over the world reach the database.",
        "ec2:group_3 EC2_SSH_OPEN",
    ),
    # medium: two things, or one that needs a closer look
    _entry(
        "medium-task-1",
        "queue-seed",
        0,
        "Jobs that never end",
        "Some jobs are tried again for ever, others are worked on twice at the same time.",
        "sqs:queue_1 SQS_REDRIVE_LOST",
        "sqs:queue_1 SQS_VISIBILITY_TOO_SHORT",
    ),
    _entry(
        "medium-half-a-block",
        "bucket",
        16,
        "Half a wall",
        "The bucket's public access block is on, the audit says, but not wholly.",
        "s3:bucket_1 S3_PUBLIC_ACCESS_BLOCK_PARTIAL",
        "s3:bucket_1 S3_NO_TLS_POLICY",
    ),
    _entry(
        "medium-stranger",
        "bucket",
        17,
        "A stranger at the keys",
        "An account that is not ours may change who reads this bucket.",
        "s3:bucket_1 S3_POLICY_CROSS_ACCOUNT",
    ),
    _entry(
        "medium-second-policy",
        "inbox",
        18,
        "Debugging, long ago",
        "The worker's role can do more than its task; files can be read over http.",
        "iam:role_1 IAM_SECOND_POLICY",
        "s3:bucket_1 S3_NO_TLS_POLICY",
    ),
    _entry(
        "medium-wide-role",
        "inbox",
        19,
        "Every action",
        "The worker could also delete files and queues.",
        "iam:role_1 IAM_WIDE_ACTIONS",
        "sqs:queue_2 SQS_NOT_ENCRYPTED",
    ),
    _entry(
        "medium-any-bucket",
        "inbox",
        20,
        "Any bucket",
        "Buckets of other people can put announcements on the queue.",
        "sqs:queue_1 SQS_CONFUSED_DEPUTY",
    ),
    _entry(
        "medium-function-asleep",
        "worker",
        21,
        "Asleep",
        "Work piles up on the queue, and the function is idle.",
        "lambda:function_1 LAMBDA_TRIGGER_DISABLED",
    ),
    _entry(
        "medium-throttled",
        "worker",
        22,
        "Throttled",
        "Every execution of the function is throttled, and its table answers slowly.",
        "lambda:function_1 LAMBDA_THROTTLED",
        "dynamodb:table_1 DYNAMODB_FIXED_CAPACITY",
    ),
    _entry(
        "medium-too-short",
        "ingest",
        23,
        "A second is not enough",
        "Large files are never finished, and old items are never removed.",
        "lambda:function_1 LAMBDA_TIMEOUT_LOW",
        "dynamodb:table_1 DYNAMODB_TTL_OFF",
    ),
    _entry(
        "medium-old-runtime",
        "pair",
        24,
        "End of life",
        "One of the functions runs on something that gets no more fixes.",
        "lambda:function_2 LAMBDA_OLD_RUNTIME",
        "sqs:queue_1 SQS_VISIBILITY_TOO_SHORT",
    ),
    _entry(
        "medium-database-open",
        "groups",
        25,
        "The database is on the internet",
        "A scanner on the internet talks to the database.",
        "ec2:group_3 EC2_INTERNAL_OPEN",
    ),
    _entry(
        "medium-ipv6",
        "groups",
        26,
        "The other internet",
        "Logins come from the internet, though no IPv4 rule lets them in.",
        "ec2:group_2 EC2_SSH_OPEN_IPV6",
        "ec2:group_3 EC2_EGRESS_OPEN",
    ),
    _entry(
        "medium-server",
        "server",
        27,
        "An old door",
        "The web server still answers the first version of the metadata service, and could be terminated by mistake.",
        "ec2:instance_1 EC2_IMDS_V1",
        "ec2:instance_1 EC2_UNPROTECTED",
    ),
    # hard: faults whose sign is elsewhere than their cause
    _entry(
        "hard-task-1",
        "ingest-seed",
        0,
        "Uploads lead nowhere",
        "New files are uploaded and nothing happens. When the function is started by hand, it cannot write. "
        "The table could not be brought back to yesterday.",
        "lambda:function_1 LAMBDA_PERMISSION_LOST",
        "iam:role_1 IAM_ACTION_LOST",
        "dynamodb:table_1 DYNAMODB_NO_RECOVERY",
    ),
    _entry(
        "hard-silent-bucket",
        "ingest",
        28,
        "Silence",
        "New files start nothing, and once something starts, it looks for a table that is not there.",
        "s3:bucket_1 S3_NOTIFICATION_LOST",
        "lambda:function_1 LAMBDA_ENV_WRONG_TARGET",
    ),
    _entry(
        "hard-wrong-files",
        "inbox",
        29,
        "Only temporary files",
        "The worker hears of temporary files only, and of what it hears it can read nothing.",
        "s3:bucket_1 S3_NOTIFICATION_FILTER",
        "iam:role_1 IAM_WRONG_RESOURCE",
        "sqs:queue_1 SQS_REDRIVE_LOST",
    ),
    _entry(
        "hard-inbox-dead",
        "inbox",
        30,
        "A dead inbox",
        "Announcements of new files reach no queue, and nobody can take the worker's role.",
        "sqs:queue_1 SQS_SENDER_LOST",
        "iam:role_1 IAM_TRUST_WRONG_SERVICE",
    ),
    _entry(
        "hard-dead-letters-audit",
        "worker",
        31,
        "Strange entries in the audit",
        "Failed work shows up in the audit queue, and no work is taken up at all.",
        "sqs:queue_1 SQS_REDRIVE_WRONG",
        "lambda:function_1 LAMBDA_TRIGGER_LOST",
        "iam:role_1 IAM_ANY_RESOURCE",
    ),
    _entry(
        "hard-swapped-roles",
        "pair",
        32,
        "In another's name",
        "The consumer is denied what it needs; the producer is denied everything.",
        "lambda:function_2 LAMBDA_WRONG_ROLE",
        "iam:role_1 IAM_PERMISSION_LOST",
    ),
    _entry(
        "hard-log-delivery",
        "archive",
        33,
        "Logs that never arrive",
        "The log bucket stays empty although logging is on, and logs may be read over http.",
        "s3:bucket_2 S3_LOG_DELIVERY_LOST",
        "s3:bucket_1 S3_PUBLIC_ACCESS_BLOCK_OFF",
    ),
    _entry(
        "hard-network",
        "groups",
        34,
        "The wrong door",
        "Visitors get no answer, the application cannot reach its database, and remote desktop is open.",
        "ec2:group_1 EC2_RULE_WRONG_PORT",
        "ec2:group_3 EC2_RULE_LOST",
        "ec2:group_2 EC2_RDP_OPEN",
    ),
    _entry(
        "hard-worker",
        "worker",
        35,
        "Everything at once",
        "Work is cut off after a second and then done twice, the function is denied something, and the table could be deleted.",
        "lambda:function_1 LAMBDA_TIMEOUT_LOW",
        "iam:role_1 IAM_ACTION_LOST",
        "sqs:queue_1 SQS_VISIBILITY_TOO_SHORT",
        "dynamodb:table_1 DYNAMODB_UNPROTECTED",
    ),
)
