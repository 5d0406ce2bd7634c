"""A cluster of a trainer without cores and two nodes, of which one is killed in the middle of a pass.

python lost_node.py FOLDER        writes the EngineNote into FOLDER/note
"""

import os
import sys
from pathlib import Path

os.environ.update(RAY_USAGE_STATS_ENABLED="0")
from ray.cluster_utils import Cluster

from pipebench.reference.engine_script import EngineJob, run
from pipebench.reference.training_script import TrainingJob
from pipebench.results.loading import Loading
from pipebench.task import Workload

AT = 15  # batches of the first pass that is timed, which has 48


class Beats:
    """Kills the node at a batch of the second pass, in place of telling that something goes on."""

    def __init__(self, cluster, node):
        self.cluster, self.node, self.batches, self.what = cluster, node, 0, ""

    def tell(self, beat):
        self.what = beat.what

    def goes_on(self):
        self.batches += self.what.endswith("Ray Data")
        if self.batches == AT:
            self.cluster.remove_node(self.node, allow_graceful=False)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    memory = {"object_store_memory": 100 << 20}
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 3}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": soon, **memory}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = [cluster.add_node(num_cpus=1, **memory) for _ in range(2)]
        cluster.wait_for_nodes()
        training = TrainingJob(Workload("tiny", batch_size=4), Loading(workers=1), 0, str(folder / "note"), 1e-4)
        run(EngineJob(training, 2, 40, str(folder), -1, cluster.address), Beats(cluster, nodes[1]))
    finally:
        cluster.shutdown()
