#!/usr/bin/env python3
"""Writes a random sample of the sentences of openapi/, for a reading by someone who does not know the project.

Usage: sample.py SEED DIRECTORY [COUNT]. Writes one file of COUNT (default 200) sentences for each group of tags. The
columns are the group, the number, the place, the sentence, and the text that contains the sentence. The same seed draws
the same sample from the same revision.
"""

import pathlib
import random
import re
import sys

import yaml

GROUPS = {
    "accounts": "users user_emails user_keys user_status two_factor_authentication personal_access_tokens impersonation_tokens "
    "project_access_tokens deploy_tokens applications custom_attributes project_uploads application_settings metadata "
    "feature_gates audit_events gpg_keys job_token_scopes statistics",
    "spaces": "projects project_forks project_members project_shares project_stars groups group_members "
    "group_single_sign_on namespaces badges scim",
    "code": "branches protected_branches commits repositories repository_files tags protected_tags push_rules deploy_keys "
    "snippets project_snippets templates project_storage pull_mirrors remote_mirrors",
    "delivery": "pipelines pipeline_schedules pipeline_triggers commit_statuses deployments environments freeze_periods "
    "variables clusters feature_flags feature_flag_user_lists feature_flag_clients metrics_dashboards releases release_links",
    "packages": "packages package_protection_rules generic_packages npm_packages python_packages maven_packages "
    "cargo_packages",
    "planning": "issues issue_links resource_events epics epic_issues labels milestones boards",
    "review": "merge_requests merges merge_request_versions approvals approval_rules external_status_checks notes award_emoji todos events",
    "other": "container_registry vulnerabilities group_transfers project_hooks openapi webhooks webhook_parts parameters "
    "parameter_groups responses headers schemas security arazzo samples",
}
KEYS = ("summary", "description", "title")
# Maximum number of characters of a text in the sample.
MAX_CONTEXT = 1500


def texts(value, path):
    """Yields every text of a document with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in KEYS and isinstance(inner, str):
                yield "/".join(path + [key]), inner
            elif key not in ("example", "examples", "default", "enum"):
                yield from texts(inner, path + [str(key)])
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, path + [str(inner.get("name", index)) if isinstance(inner, dict) else str(index)])


def one_line(text):
    """Joins the lines of a text."""
    return re.sub(r"\s+", " ", text.strip())


def sentences(text):
    """Yields the sentences of a text. Headings, rows of tables and list items that are not sentences are omitted."""
    # Each part is the text of a paragraph or of a list item, and whether it is a list item.
    parts = [["", False]]
    for line in map(str.strip, text.strip().splitlines()):
        if line.startswith("- "):
            parts.append([line[2:], True])
        elif not line or re.match(r"#+ |\|", line):
            parts.append(["", False])
        else:
            parts[-1][0] += f" {line}"
    for part, is_item in parts:
        for sentence in re.split(r"(?<=[.!?]) (?=[A-Z`])", one_line(part)):
            if sentence and not (is_item and not re.fullmatch(r"[A-Z`].*[.!?]", sentence)):
                yield sentence


def context(text, sentence):
    """Returns the text on one line or, if it is long, the part of MAX_CONTEXT characters around the sentence."""
    text = one_line(text)
    start = text.find(sentence)
    if start < 0:
        sys.exit(f"not found in its text: {sentence}")
    if len(text) <= MAX_CONTEXT:
        return text
    first = start - max(MAX_CONTEXT - len(sentence), 0) // 2
    first = max(min(first, len(text) - MAX_CONTEXT), 0)
    part = text[first : first + MAX_CONTEXT]
    return "".join(["…" if first else "", part, "…" if first + MAX_CONTEXT < len(text) else ""])


def main():
    seed, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    root = pathlib.Path(__file__).resolve().parents[2] / "openapi"
    found = {group: {} for group in GROUPS}
    for file in sorted(root.rglob("*.yaml")):
        if file.stem == "examples":
            # Its texts are data.
            continue
        group = next((group for group, names in GROUPS.items() if file.stem in names.split()), None)
        if group is None:
            sys.exit(f"{file} belongs to no group")
        for place, text in texts(yaml.safe_load(file.read_text()), [file.stem]):
            for sentence in sentences(text):
                found[group].setdefault(sentence, (place, context(text, sentence)))
    directory.mkdir(parents=True, exist_ok=True)
    for group, known in found.items():
        chosen = random.Random(f"{seed}/{group}").sample(sorted(known), min(count, len(known)))
        with (directory / f"{group}.tsv").open("w") as output:
            for number, sentence in enumerate(chosen, 1):
                output.write("\t".join([group, str(number), known[sentence][0], sentence, known[sentence][1]]) + "\n")
        print(f"{group}: {len(chosen)} of {len(known)}")


if __name__ == "__main__":
    main()
