// Whether an archive of libtorch is damaged: libtorch writes checksums, and compares none.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <caffe2/serialize/read_adapter_interface.h>

#include <memory>

namespace kolo::train {

/// Throws std::runtime_error or c10::Error unless the file ends where its archive does, and each record has
/// the checksum that the archive's directory gives it.
void check_archive(const std::shared_ptr<caffe2::serialize::ReadAdapterInterface>& file);

}  // namespace kolo::train
