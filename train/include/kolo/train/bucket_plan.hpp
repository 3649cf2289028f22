// BucketPlan: what DistributedDataParallel has measured of its buckets, and what it expects of them.
#pragma once

#include <chrono>

namespace kolo {

/// Where buckets of gradients end; see DistributedDataParallelOptions::bucket_borders.
enum class BucketBorders {
  sizes,     ///< where a bucket holds first_bucket_bytes or bucket_bytes
  measured,  ///< where the last one is averaged earliest, as far as measured times of the first steps tell
};

/// The same on all ranks. Zero as long as nothing is measured.
struct BucketPlan {
  std::chrono::duration<double> latency{0};       ///< of averaging a bucket, however small
  std::chrono::duration<double> per_mebibyte{0};  ///< what it takes longer for each 2^20 bytes
  std::chrono::duration<double> exposed{0};  ///< what a step is expected to wait for after the last gradient
  std::chrono::duration<double> exposed_before{0};  ///< measured with borders by sizes
  bool is_final = false;                            ///< no border changes any more
};

}  // namespace kolo
