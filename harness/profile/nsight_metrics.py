"""Which of Nsight Compute's numbers a profile is made of, under the names that it gives them."""

from __future__ import annotations

SECTIONS = (
    "SpeedOfLight", "LaunchStats", "Occupancy", "WorkloadDistribution", "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables", "ComputeWorkloadAnalysis", "SchedulerStats", "WarpStateStats", "SourceCounters",
)  # fmt: skip
"""They bring the tool's own rules, whose messages carry an estimated gain."""

# From the sections, under the names that the details page shows.
COMPUTE, MEMORY, DRAM = "Compute (SM) Throughput", "Memory Throughput", "DRAM Throughput"
ISSUE = "Issue Slots Busy"
OCCUPANCY, OCCUPANCY_POSSIBLE = "Achieved Occupancy", "Theoretical Occupancy"
REGISTERS, WAVES = "Registers Per Thread", "Waves Per SM"
SHARED_STATIC, SHARED_DYNAMIC = "Static Shared Memory Per Block", "Dynamic Shared Memory Per Block"
LIMITS = {
    "Block Limit Registers": "registers",
    "Block Limit Shared Mem": "shared memory",
    "Block Limit Warps": "the block's size",
    "Block Limit SM": "blocks a multiprocessor",
    "Block Limit Barriers": "barriers",
}
"""How many blocks fit a multiprocessor by each resource: the smallest number limits."""

BASE_UNITS = {
    "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip
"""How many nanoseconds or bytes a unit is: base units are asked for, and what says otherwise is not read as one."""

# Asked for by name.
DURATION = "gpu__time_duration.sum"
DRAM_READ, DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
L1_HITS, L2_HITS = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
FMA = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
LOAD_EFFICIENCY = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
STORE_EFFICIENCY = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"
LOAD_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
STORE_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"
CONFLICTS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
WAVEFRONTS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
)
SPILLS = ("smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum")
INSTRUCTIONS = "smsp__inst_executed.sum"

STALL_PREFIX, STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "waiting for device memory or the L2",
    "short_scoreboard": "waiting for shared memory or special functions",
    "barrier": "waiting at a barrier",
    "math_pipe_throttle": "waiting for a busy arithmetic pipe",
    "mio_throttle": "waiting for the queue of shared memory and special functions",
    "lg_throttle": "waiting for the queue of global and local memory",
    "tex_throttle": "waiting for the queue of the texture unit",
    "drain": "waiting for stores to drain before the end",
    "wait": "waiting for a fixed latency",
    "dispatch_stall": "waiting for the dispatch unit",
    "no_instruction": "waiting for instructions (a long or branching code)",
    "imc_miss": "waiting for the constant cache",
    "branch_resolving": "waiting for a branch",
    "membar": "waiting for a memory fence",
    "sleeping": "sleeping",
    "misc": "other reasons",
    "not_selected": "ready, but another warp was chosen",
    "selected": "issuing",
    "gmma": "waiting for a warp group's matrix product",
    "warpgroup_arrive": "waiting for its warp group",
}
WAITING = tuple(name for name in STALLS if name not in ("not_selected", "selected"))

METRICS = (
    DURATION, DRAM_READ, DRAM_WRITTEN, L1_HITS, L2_HITS, FMA, TENSOR, LOAD_EFFICIENCY, STORE_EFFICIENCY, LOAD_SECTORS,
    STORE_SECTORS, *CONFLICTS, *WAVEFRONTS, *SPILLS, INSTRUCTIONS,
    f"regex:{STALL_PREFIX}.*_per_issue_active",
)  # fmt: skip
