"""A process that is forked from one that has used a model says why it cannot use it, and does not hang."""

import multiprocessing
from multiprocessing.connection import Connection

import numpy as np
import pytest
from helpers import TEXTS, load_task, loaded

IDS = {"token_ids": np.ones((2, 8), "int32")}
CALLS = {
    "a call": lambda model: model(IDS),
    "predict": lambda model: model.predict(IDS, verbose=0),
    "fit": lambda model: model.fit(IDS, np.zeros(2, "int32"), verbose=0),
    "a verb": lambda model: model.classify(TEXTS),
    "the preprocessor": lambda model: model.preprocessor(TEXTS),
    "the tokenizer": lambda model: model.preprocessor.tokenizer(TEXTS),
    "load": lambda model: load_task("encoder"),
}


def send_what_is_raised(connection: Connection, call: str) -> None:
    try:
        CALLS[call](loaded("classification", "classification"))
        connection.send("nothing")
    except RuntimeError as error:
        connection.send(str(error))


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS)
def test_a_forked_process_is_told_to_be_spawned(call):
    loaded("classification", "classification").preprocessor(TEXTS)
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(
        target=send_what_is_raised, args=(there, call)
    )
    child.start()
    try:
        assert here.poll(60), "the child does not answer"
        assert "get_context('spawn')" in here.recv()
    finally:
        child.kill()
        child.join()
