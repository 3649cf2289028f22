// Runs of autograd's engine: one for each call of backward(), also of one within another.
#pragma once

namespace kolo::train {

/// For the run that this thread is in, also in the callbacks at its end: whether a function in another run
/// called it, to compute a part of the model anew (checkpointing).
bool is_nested_run();

}  // namespace kolo::train
