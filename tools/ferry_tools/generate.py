"""`generate`: a sanity look at what a model says, greedily, through transformers."""

from pathlib import Path

from ferry_tools.errors import DataError


def generate(folder: Path, prompt: str, max_new_tokens: int) -> str:
    """The continuation of `prompt`, without the end token."""
    if not (folder / "config.json").is_file():
        raise DataError(f"{folder}: no config.json; expected a model's folder")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: cannot be loaded: {error}") from None
    given = tokenizer(prompt, return_tensors="pt")
    if given["input_ids"].shape[1] == 0:
        raise DataError("the prompt has no tokens; expected some text")
    with torch.inference_mode():
        out = model.generate(
            input_ids=given["input_ids"],
            attention_mask=given["attention_mask"],
            max_new_tokens=max_new_tokens,
            do_sample=False,
            pad_token_id=tokenizer.eos_token_id,
        )
    return tokenizer.decode(out[0, given["input_ids"].shape[1] :], skip_special_tokens=True)
