// kolo: collective communication for CPUs and ordinary networks. This header brings in all of the core API.
#pragma once

#include "kolo/arena.hpp"
#include "kolo/buffer.hpp"
#include "kolo/buffer_list.hpp"
#include "kolo/call_batch.hpp"
#include "kolo/communicator.hpp"
#include "kolo/counts.hpp"
#include "kolo/dtype.hpp"
#include "kolo/error.hpp"
#include "kolo/estimate.hpp"
#include "kolo/memory.hpp"
#include "kolo/name.hpp"
#include "kolo/reduction.hpp"
#include "kolo/sparse.hpp"
#include "kolo/store.hpp"
#include "kolo/timeline.hpp"
#include "kolo/version.hpp"
#include "kolo/wire.hpp"
#include "kolo/work.hpp"

/// All of kolo. Programs begin with Communicator::create().
namespace kolo {}
