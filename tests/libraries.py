"""Which tests need a package that the extra `dev` does not bring: `make test-libraries` runs these, and skips none.

A file has the beginnings of the names of such tests, each with the modules that it needs. `conftest` gives the tests
their mark `library`. Elsewhere they are skipped where a module is missing.
"""

from importlib.util import find_spec

DALI, NVIMAGECODEC = "nvidia.dali", "nvidia.nvimgcodec"
KIND = "test_a_kind_gives_every_crop_of_its_task"
CONTRACT = "test_a_variant_keeps_the_contract_of_its_task_and_agrees_with_the_reference"
NEEDS = {
    "tests/loaders/test_every_kind.py": {
        f"{KIND}[dali-": [DALI],
        f"{KIND}[grain-": ["grain"],
        f"{KIND}[litdata-": ["litdata"],
        f"{KIND}[mosaicml-streaming-": ["streaming"],
        f"{KIND}[ray-data-": ["ray"],
        f"{KIND}[spdl-": ["spdl"],
    },
    "tests/reference/test_engine_real.py": {"test_": ["ray"]},
    "tests/stages/test_on_device.py": {
        "test_a_row_has_no_thread_before_its_first_call_so_that_its_process_can_fork": [DALI, NVIMAGECODEC],
        "test_an_image_that_cannot_be_decoded_costs_the_next_one_nothing": [DALI, NVIMAGECODEC],
        "test_each_thread_has_a_decoder_of_its_own": [DALI, NVIMAGECODEC],
        "test_nvimagecodec_prints_nothing_of_an_image_that_it_cannot_decode": [NVIMAGECODEC],
        "test_pixels_stay_as_they_are_when_the_next_batch_is_made": [DALI],
    },
    "tests/test_registry.py": {
        f"{CONTRACT}[crop/resized-224/dali-roi]": [DALI],
        f"{CONTRACT}[crop/resized-224/nvimagecodec-roi]": [NVIMAGECODEC],
        f"{CONTRACT}[decode/rgb/dali]": [DALI],
        f"{CONTRACT}[decode/rgb/nvimagecodec]": [NVIMAGECODEC],
    },
    "tests/watch/log/test_callbacks.py": {"test_transformers_logs_the_series": ["transformers", "accelerate"]},
    "tests/watch/log/test_sinks.py": {
        "test_every_sink_takes_points_and_shows_them_at_once[tensorboard]": ["tensorboard"],
        "test_every_sink_takes_points_and_shows_them_at_once[wandb]": ["wandb"],
        "test_tensorboard_reads_what_was_written": ["tensorboard"],
        "test_wandb_gets_neither_paths_nor_the_machine": ["wandb"],
    },
    "tests/watch/stages/test_sent_by_value.py": {
        "test_what_is_timed_here_works_where_there_is_no_pipebench[cloudpickle]": ["cloudpickle"],
    },
    "tests/watch/stages/test_watch_albumentations.py": {"test_": ["albumentations"]},
    "tests/watch/test_notebook.py": {"test_in_ipython_itself": ["IPython"]},
}


def needed(test: str) -> list[str]:
    """The modules of such packages that a test needs."""
    file, _, name = test.partition("::")
    return [one for start, modules in NEEDS.get(file, {}).items() if name.startswith(start) for one in modules]


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
