// The whole training layer.
#pragma once

#include "kolo/train/averages.hpp"
#include "kolo/train/checkpoint.hpp"
#include "kolo/train/distributed_data_parallel.hpp"
#include "kolo/train/figures.hpp"
#include "kolo/train/grid.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/local.hpp"
#include "kolo/train/mixture_of_experts.hpp"
#include "kolo/train/pipeline_parallel.hpp"
#include "kolo/train/precision.hpp"
#include "kolo/train/recompute.hpp"
#include "kolo/train/sharded_data_parallel.hpp"
#include "kolo/train/sync_batch_norm.hpp"
#include "kolo/train/tensor.hpp"
#include "kolo/train/training_schedule.hpp"
