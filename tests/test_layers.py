"""The map of the house: a module imports only modules that stand before it here. Nothing is exempt.

Packages stand in their order, and the modules of each in theirs. Discovery by a name that is put together when the
program runs (the stages, the studies, the commands) is the one thing that the text does not show.
"""

import ast
from pathlib import Path

import pytest

import pipebench

ROOT = Path(pipebench.__file__).parent
# A loader is added by one file, so those are found and not listed.
LOADERS = " ".join(sorted(one.stem for one in (ROOT / "loaders/kinds").glob("*.py") if one.stem != "__init__"))
HOUSE = {
    "": "errors units stats ring",
    "host": "clock slurm gaps heap children known_bad screen interrupts private redaction cgroups identity machine "
    "limits named page_cache process_tree scratch whole_files",
    "native": "building passing region resized transforms multi_picture packing",
    "task": "",
    "results": "sync_points measurement usual_pipeline loading consumers windows drilled account costs hand_off "
    "host_use batches over_time next_move reads watched own_loop training calibration check comparison before_after "
    "studies ranks trial_reads "
    "programs advice plan packing examination remote loaders engine secrets names beginning verdicts report schema "
    "earlier_runs",
    "render": "cells signs layout batches screen check frameworks watch_notes feeding consumers stage_sum gains tables "
    "lab started worker_moves reads in_loop run_moves watch_verdict of_passes of_workers of_cores of_training "
    "watch_causes watch_account watch_details watch_drilled watch ranks programs "
    "watched study syncs one_machine same_work ab github calibration advice_names advice_reasons advice_doubts "
    "advice_lines advice_notes advice "
    "before_after_rows before_after plan functions packing examination remote loaders engine text",
    "render.pictures": "sheet svg drawing axes forest bound counts errors in_workers ladder of_ranks remedies "
    "resources speedups steps times variants whole_run two_runs",
    "render.html": "markup outline page",
    "render.notebook": "",
    "syncpoints": "placement book reviewed_operators modes session examine",
    "predict": "cores loader load bounds asked intervals one_machine ladder planning passports untried room "
    "more_workers",
    "watch.record": "options orders line pace spent read_lines kernel_counts from_handlers bound_lines trial_lines "
    "program_lines sample_calls worker_lines device_lines lines patches per_code own_code wrapping media record_file "
    "reads exclusive_time last_sample recording line_counter sampling thread_pools memory positions mounts profilers",
    "watch.stages": "labels transforms hidden_errors fields keys_read webdataset helpers in_place called iterables "
    "shrunk media_calls timed_reads stored_objects remote_reads library_calls held_modules finding_transforms",
    "watch.worker": "reachable kept_open file_reads pickling stack_place padded tokens fingerprints contents draws "
    "repeated_calls line_counts split batch_sums standins inits fetching",
    "watch.script": "made dividing nested_columns held_models described lost_workers wait_parts arrivals "
    "training_device device_idle main_thread own_steps passes head_work unused_gradients line_counts phases backward "
    "ranks loop_place own_python own_line frozen_modules unused_graphs compiling full_collections switching "
    "busy_threads look_counts look_keys awaiting helper_threads around_loop forks thread_clock looked_lines "
    "start_looks loop_looks watched_next loop_spans without_loader left_on gradient_rows optimisers "
    "simple_queues relays same_samples spawned_workers "
    "transfers iterators webdataset_loader",
    "watch.bound": "batches schedule alternation agreement live_batches session",
    "watch.trial": "resting leaving alike dealing in_step edits examining memo asked compared chains row_pieces "
    "row_code indexing pictures arms loop_threads stretches open_files reading passes session patching",
    "watch.launch": "watched_script standstill file_waits over_time footprint exits lock_waits stacks supervisor "
    "bootstrap program programs",
    "watch.launch.hook": "pipebench_hook sitecustomize",
    "watch.read": "decoding gather described begins compiling device_idle in_loop like_a_device together settled "
    "chains all_made collectives bound bound_of_ranks known_row known_files known_arrays known_copies known_operations "
    "known_table query_plan module_names known_lines lines_around known_elements "
    "opened_again reads needless drilled line_runs hand_off script_cpu costs over_time pauses loop_clock host_use "
    "known_move makers moves moves_of_run prepared account verdict waiting stalls series each_loader growing "
    "of_causes few_parts locks one_worker slow_line drawn_lines full_collections cores_taken first_batches pass_causes "
    "once given_by_each in_vain "
    "small_batches torch_threads after_model own_lines small_steps beside_model untrained loop_causes "
    "helped without_workers warming slower_steps frozen_modules checkpointing computed_again "
    "busy_threads causes agreeing notes summary "
    "one_of_ranks "
    "kept_steps rank_pace ranks rank_groups hang programs merged",
    "watch.log.sinks": "csv jsonl tensorboard wandb",
    "watch.log": "incoming queue_fill worker_memory live writing writers",
    "watch.trace": "tracks device_timeline excerpt perfetto",
    "watch": "with_block notebook in_lightning in_transformers command",
    "remedies": "seen source decorated opening files as_tensors bytes_across cache in_workers callbacks between "
    "in_training copies decoders divide_first earlier fewer_fields resize_first crop_first draft packed_crops "
    "from_bytes getitems in_one_tensor in_order kept knock_out lookup loop_threads opencv_resize "
    "persistent_workers num_workers one_iterator one_thread padding like_lengths one_row pin_memory "
    "prefetch_factor ring_collate sampler_ahead select_first slow_lines less_work spread_evenly start_method "
    "unlocked validation",
    "advise": "judging streams main_loader whole_run sync_cause shared_resource trial conductor snippet tail live_run "
    "command",
    "before_after": "loaders estimates figures watched differing whole",
    "region": "",
    "batch_into": "",
    "calibrate.planted": "amounts loaded looping replaying stages samples waiting",
    "calibrate": "running attribution bounds overhead under_load waits whole",
    "data": "image_header shard_pattern listing cells in_tars sealed synthetic patterns tables datasets clip",
    "remote": "fetching addresses windows looking whole",
    "pack": "sources journal writing gain working",
    "stages": "agreement cache_state read decode read_tables crop transform collate transfer step video "
    "on_device dali nvimagecodec ceilings",
    "stage": "",
    "check": "kinds images members decoding whole",
    "runner": "",
    "reference": "worker_health published_rates pipeline dataloader training_loop loader_table"
    " training_script watched_training ray_there ray_statistics ray_work ray_cluster engine_rounds engine_script"
    " engine",
    "lab": "fresh earlier checking bounding turns timing passes whole_run one_task",
    "loaders": "kind recipe checking one_round rounds",
    "loaders.kinds": LOADERS,
    "__init__": "",
    "doctor": "asking probe host checking busy compiler cores decoders gpu memory passing releases storage threads "
    "examining",
    "studies": "input_pipeline metrics sync_points tar_or_files training_loop",
    "compare": "other_commits failures heard leaves one_pass one_function other_inputs open_call provenance "
    "permutation same_work looking saved import_roots bounded proof submodules config functions asv_suites "
    "pytest_side places sample_parts bare_dataset as_made made_once users_loader usable checkouts "
    "borrowed_packages scaffold schedule server rounds ready_clock round_process",
    "asvbench": "",
    "terminal": "",
    "pytest_plugin": "",
    "commands": "_lab _keeping _engine _percent _numbers _ab_choice _ab_saved _script ab advise build calibrate data "
    "check compare doctor init loaders pack plan remote run schema show study syncs watch",
    "cli": "",
    "__main__": "",
}
ORDER = [
    f"{package}.{module}".strip(".")
    for package, modules in HOUSE.items()
    for module in [*(["__init__"] if (ROOT / package.replace(".", "/") / "__init__.py").exists() and package else []),
                   *(modules.split() or ([""] if not (ROOT / package.replace(".", "/")).is_dir() else []))]
]  # fmt: skip
MODULES = sorted(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in ROOT.rglob("*.py"))


def _module(name):
    """The file of ours that a dotted name after `pipebench.` stands for; None where it is a name inside a module."""
    return next((one for one in (name, f"{name}.__init__".strip(".")) if one in MODULES), None)


def _imports(text):
    """Every module of ours that a text imports, also inside functions and by a literal name."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [(f"{node.module}.{one.name}", node.module) for one in node.names]
        elif isinstance(node, ast.Import):
            names = [(one.name, one.name) for one in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [(one.value, one.value) for one in node.args if isinstance(one, ast.Constant)]
        for inner, outer in names:
            if outer.split(".")[0] == "pipebench":
                yield _module(inner.removeprefix("pipebench").strip(".")) or _module(outer[10:])


def test_every_module_has_its_place_and_every_place_its_module():
    assert sorted(ORDER) == MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_stands_before_it(module):
    for imported in _imports((ROOT / (module.replace(".", "/") + ".py")).read_text()):
        assert imported in (module, "__init__") or ORDER.index(imported) < ORDER.index(module), imported


def test_an_import_is_seen_wherever_it_is_written():
    text = (
        "import pipebench.stats\n"
        "from pipebench import units\n"
        "def late():\n"
        "    from pipebench.data.listing import Sample\n"
        "    import_module('pipebench.host.clock'), importlib.import_module(f'pipebench.{late}')\n"
    )
    assert set(_imports(text)) == {"stats", "units", "data.listing", "host.clock"}


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "py.typed").exists()


@pytest.mark.parametrize("module", MODULES)
def test_a_module_fits_in_400_lines(module):
    lines = (ROOT / (module.replace(".", "/") + ".py")).read_text().count("\n")
    assert lines <= 400, f"{module} has {lines}"
