"""`generate`: a sanity look at what a model says, greedily, through transformers."""

import sys
from functools import partial
from pathlib import Path

from jinja2 import TemplateSyntaxError

from ferry_tools.errors import DataError
from ferry_tools.git_lfs import refuse_git_lfs_pointer
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.template_limits import limits

CHECKPOINTS = "checkpoints"  # of a run's folder, docs/formats/run.md


def step_of(folder: Path) -> int:
    """The step of a checkpoint's folder `step-000200`; -1 for another folder."""
    number = folder.name.removeprefix("step-")
    return int(number) if folder.name.startswith("step-") and number.isdigit() else -1


def model_folder(folder: Path) -> Path:
    """The folder itself, or of a run its finished model, or else its newest checkpoint."""
    for found in (folder, folder / "model"):
        if (found / "config.json").is_file():
            return found
    saved = sorted(folder.glob(f"{CHECKPOINTS}/step-*/config.json"), key=lambda file: step_of(file.parent))
    if saved and step_of(saved[-1].parent) >= 0:
        return saved[-1].parent
    raise DataError(f"{folder}: no config.json; expected a model's folder, or a run's with a checkpoint")


def rendered(tokens: ModelTokenizer, turns: list[dict], prompt: bool = False) -> str:
    """A conversation as text. Raises DataError with what the template says against it."""
    template, _ = tokens.chat_template, tokens.renderer
    try:
        with limits():
            return tokens.render(turns, prompt=prompt)[0]
    except TemplateSyntaxError as error:
        raise tokens.broken_template(template, error) from None
    except Exception as error:  # a template is code that came with the model
        what = "prompt" if prompt else "conversation"
        raise DataError(f"{tokens.folder}: the chat template refuses the {what}: {error}") from None


def turn_end(tokens: ModelTokenizer) -> list[int]:
    """The special token that the template writes after an answer, such as <|im_end|>; none when it writes none."""
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!!"}]
    _, answer, after = rendered(tokens, turns).rpartition("!!")
    if not answer:  # the template writes answers in another form
        return []
    ids = tokens.tokenizer.encode(after.lstrip(), add_special_tokens=False).ids
    special = tokens.tokenizer.get_added_tokens_decoder()
    return ids[:1] if ids and ids[0] in special else []


def prompt_ids(tokens: ModelTokenizer, prompt: str, chat: bool, system: str | None) -> list[int]:
    """What the model is given: the prompt, or with `chat` a conversation up to its answer."""
    if not chat:
        return tokens.tokenizer.encode(prompt).ids
    turns = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": prompt})
    return tokens.encode_all([rendered(tokens, turns, prompt=True)])[0]


def refuse_damaged_weights(folder: Path) -> None:
    """Names the file that is damaged: transformers says only what is wrong with one of them."""
    from safetensors import SafetensorError, safe_open

    for file in sorted(folder.glob("model*.safetensors")):
        refuse_git_lfs_pointer(file)
        try:
            with safe_open(file, "pt"):
                pass
        except SafetensorError as error:
            raise DataError(f"{file}: cannot be loaded: {error}") from None


def load_model(folder: Path):
    """transformers' model of a folder. Raises DataError with what is wrong with it."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    refuse_damaged_weights(folder)
    try:
        model, loaded = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    except MemoryError:
        raise
    except Exception as error:  # transformers raises whatever the folder's files lead to: KeyError, ZeroDivisionError
        reason = error if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"
        raise DataError(f"{folder}: cannot be loaded: {reason}") from None
    if missing := sorted(loaded["missing_keys"]):  # transformers makes them up at random
        raise DataError(f"{folder}: cannot be loaded: tensor '{missing[0]}' is missing, {len(missing)} in all")
    return model


def checked_logits(folder: Path, model, _ids, logits):
    """The logits. Raises DataError where there is a NaN, of which no token is the most likely."""
    if not logits.isnan().any():
        return logits
    wrong = [name for name, weight in model.named_parameters() if not weight.isfinite().all()]
    reason = f"tensor '{wrong[0]}' is not finite" if wrong else f"its weights are finite, but overflow in {model.dtype}"
    raise DataError(
        f"{folder}: the logits are NaN, so there is no answer: {reason}; expected finite numbers: a damaged file, or "
        "a model that had diverged when it was saved"
    )


def on_accelerator(model):
    """The model on the GPU that torch sees, and on the CPU where there is none or it does not fit."""
    import torch

    device = torch.accelerator.current_accelerator(check_available=True)
    if device is None:
        return model
    try:
        return model.to(device)
    except torch.OutOfMemoryError:
        print(f"the model does not fit on {device}; it runs on the CPU", file=sys.stderr)
        return model.to("cpu")


def generate(folder: Path, prompt: str, max_new_tokens: int, chat: bool = False, system: str | None = None) -> str:
    """The continuation of `prompt`, or the answer to it, up to the end token."""
    folder = model_folder(folder)
    import torch

    tokens = ModelTokenizer.load(folder)
    given = prompt_ids(tokens, prompt, chat, system)
    if not given:
        raise DataError("the prompt has no tokens; expected some text")
    model = on_accelerator(load_model(folder).eval())
    ids = torch.tensor([given], device=model.device)
    ends = [tokens.end_token, *(turn_end(tokens) if chat else [])]
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=ends,
            pad_token_id=tokens.end_token,
            logits_processor=[partial(checked_logits, folder, model)],
        )
    return tokens.tokenizer.decode(out[0, len(given) :].tolist(), skip_special_tokens=True)
