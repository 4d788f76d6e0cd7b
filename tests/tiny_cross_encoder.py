"""A cross-encoder small enough to be written by a test, whose scores can be counted by hand.

The score of a passage is the number of the query's words that it holds, of those in the vocabulary; a word
that is not in it counts nowhere. The folder is as a real model is exported, and fastembed runs it as one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WINDOW = 128  # tokens of query and passage together
Fault = Literal["", "nan", "classes", "twice"]


def write_cross_encoder(
    folder: Path, words: Sequence[str], fault: Fault = "", file: str = "model.onnx"
) -> Path:
    """Write a model that knows `words`. `fault`: "nan" gives no numbers, "classes" two scores a pair, "twice"
    two pairs where there is one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _make_tokenizer(words).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": WINDOW, "pad_token": SPECIAL[0]})
    )
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    target = folder / file
    target.parent.mkdir(exist_ok=True)
    save_model(_make_model(fault), str(target))
    return folder


def _make_tokenizer(words: Sequence[str]) -> Tokenizer:
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *dict.fromkeys(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def _make_model(fault: Fault) -> object:
    """`score = sum over query tokens of (is a known word) * (occurs in the passage)`, as shape (pairs, 1)."""
    ids = ["pairs", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ids)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    constants = [
        numpy_helper.from_array(np.array(value, dtype=kind), name)
        for name, value, kind in (
            ("last_special", len(SPECIAL) - 1, np.int64),
            ("zero", 0, np.int64),
            ("axis_1", [1], np.int64),
            ("axis_2", [2], np.int64),
        )
    ]
    nodes = [
        helper.make_node("Greater", ["input_ids", "last_special"], ["is_word"]),
        helper.make_node("Equal", ["token_type_ids", "zero"], ["is_first"]),
        helper.make_node("Not", ["is_first"], ["is_second"]),
        helper.make_node("And", ["is_word", "is_first"], ["in_query"]),
        helper.make_node("And", ["is_word", "is_second"], ["in_passage"]),
        helper.make_node("Unsqueeze", ["input_ids", "axis_2"], ["ids_down"]),
        helper.make_node("Unsqueeze", ["input_ids", "axis_1"], ["ids_across"]),
        helper.make_node("Equal", ["ids_down", "ids_across"], ["same"]),
        helper.make_node("Unsqueeze", ["in_query", "axis_2"], ["query_down"]),
        helper.make_node("Unsqueeze", ["in_passage", "axis_1"], ["passage_across"]),
        helper.make_node("And", ["query_down", "passage_across"], ["across"]),
        helper.make_node("And", ["same", "across"], ["matches"]),
        helper.make_node("Cast", ["matches"], ["counted"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["counted", "axis_2"], ["occurs"], keepdims=0),
        helper.make_node("ReduceSum", ["occurs", "axis_1"], ["score"], keepdims=1),
    ]
    shape: list[str | int] = ["pairs", 1]
    if fault == "nan":
        constants.append(numpy_helper.from_array(np.array(np.nan, dtype=np.float32), "nan"))
        nodes.append(helper.make_node("Mul", ["score", "nan"], ["logits"]))
    elif fault == "classes":
        nodes.append(helper.make_node("Concat", ["score", "score"], ["logits"], axis=1))
        shape = ["pairs", 2]
    elif fault == "twice":
        nodes.append(helper.make_node("Concat", ["score", "score"], ["logits"], axis=0))
        shape = ["twice the pairs", 1]
    else:
        nodes.append(helper.make_node("Identity", ["score"], ["logits"]))
    graph = helper.make_graph(
        nodes,
        "tiny_cross_encoder",
        inputs,
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
