"""What the program says when nothing, help or something unknown is asked."""

import json

import pytest
from conftest import ferry


@pytest.mark.parametrize("words", [[], ["help"], ["--help"]])
def test_without_a_command_all_of_them_are_listed(words):
    text = ferry(*words).stdout
    assert "plan" in text and "train" in text and "doctor" in text


@pytest.mark.parametrize(
    "words", [["help", "train"], ["help", "data", "preview"], ["help", "init"], ["data"], ["data", "preview", "--help"]]
)
def test_help_tells_what_a_command_takes(words):
    text = ferry(*words).stdout
    assert {"train": "--resume", "preview": "--samples", "init": "--preset", "data": "preview"}[
        [word for word in words if word != "--help"][-1]
    ] in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["plan", "--json"], "job is required\nRun with --help for more information."),
        (["plan", "job.yaml", "--foo", "--json"], "unknown option '--foo'; expected one of "),
        (["simulate", "--json", "a.plan", "b.plan"], "unexpected argument 'b.plan'"),
        (["papers", "--json", "--harmony"], "--harmony: 1 required TEXT missing"),
        (["papers", "--json", "mobuis"], "unknown table 'mobuis'; did you mean 'mobius"),
        (["doctor", "--json", "--drive-size", "much"], "--drive-size: "),
    ],
)
def test_wrong_arguments_are_told_in_json_where_that_was_asked_for(words, text):
    done = ferry(*words, expect=2)
    answer = json.loads(done.stdout)
    assert answer == {"error": done.stderr.removesuffix("\n"), "exit": 2}
    assert answer["error"].startswith(text)


def test_wrong_arguments_are_an_event_where_these_were_asked_for():
    answer = json.loads(ferry("train", "--events", expect=2).stdout)
    assert (answer["event"], answer["exit"]) == ("error", 2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["trian", "job.yaml"], "unknown command 'trian'; did you mean 'train'?\n"),
        (["help", "trian"], "unknown command 'trian'; did you mean 'train'?\n"),
        (["data", "preveiw", "job.yaml"], "unknown command 'preveiw'; did you mean 'preview'?\n"),
        (["job.yaml"], "unknown command 'job.yaml'; expected one of plan, simulate, train"),
        (["train", "job.yaml", "--resmue"], "unknown option '--resmue'; did you mean '--resume'?\n"),
        (["simulate", "--jsno"], "unknown option '--jsno'; did you mean '--json'?\n"),
        (["simulate", "a.plan", "b.plan"], "unexpected argument 'b.plan'; ferry simulate --help tells what it takes\n"),
        (
            ["train", "job.yaml", "--learning_rate", "1e-5"],
            "unknown option '--learning_rate'; keys of the job are written without dashes: optim.lr=VALUE\n",
        ),
        (
            ["plan", "job.yaml", "--lr=1e-5"],
            "unknown option '--lr'; keys of the job are written without dashes: optim.lr=VALUE\n",
        ),
    ],
)
def test_what_is_not_known_is_refused_with_what_may_be_meant(words, text):
    done = ferry(*words, expect=2)
    assert done.stderr.startswith(text) and done.stdout == ""
