// Sparse sums.
#include "c_api/guard.hpp"
#include "kolo/kolo.h"

namespace kolo::c_api {
namespace {

SparseOptions options_of(const kolo_sparse_options* given_options) {
  SparseOptions result;
  if (given_options == nullptr) return result;
  const kolo_sparse_options options = read(given_options, "kolo_sparse_options");
  if (options.degrees != nullptr) result.degrees = {options.degrees, options.degrees + options.layers};
  if (options.dense_share != nullptr) result.dense_share = *options.dense_share;
  result.dense_algorithm = text_or_empty(options.dense_algorithm);
  return result;
}

}  // namespace
}  // namespace kolo::c_api

using namespace kolo::c_api;

kolo_status kolo_sparse_create(kolo_communicator* communicator, const kolo_sparse_options* options,
                               kolo_sparse** sparse) {
  return make_handle(__func__, sparse,
                     [&] { return kolo::SparseAllReduce(known(communicator), options_of(options)); });
}
kolo_status kolo_sparse_sum(kolo_sparse* sparse, const kolo_sparse_vector* mine, kolo_sparse_vector* sum) {
  return guarded(__func__, [&] {
    (void)read(sum, "the place of the sum");
    const kolo_sparse_vector vector = read(mine, "kolo_sparse_vector");
    std::uint64_t elements = 0;
    if (__builtin_mul_overflow(vector.count, vector.width, &elements)) throw Misuse("`count` is too large");
    auto handle = issue<kolo_sparse_memory>({});
    auto& [indices, values] = known(handle.get());
    std::tie(indices, values) =
        known(sparse).sum(vector.length, list_of(vector.indices, vector.count, "`indices`"),
                          {vector.values, elements, type_of(vector.dtype)}, vector.width);
    write(sum, {0, vector.length, vector.width, indices.size(), indices.data(), values.data(), vector.dtype,
                handle.get()});
    (void)handle.release();
  });
}
kolo_status kolo_sparse_degrees(const kolo_sparse* sparse, const int** degrees, size_t* layers) {
  return guarded(__func__, [&] {
    const auto& all = known(sparse).degrees();
    given(degrees, "the place of the degrees") = all.data();
    given(layers, "the place of their number") = all.size();
  });
}
