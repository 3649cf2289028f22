// Sparse all-reduce: the sum of vectors of which each rank holds few elements, as (index, value) pairs.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kolo/communicator.hpp"

namespace kolo {

/// A vector of `length` elements. The elements at `indices` (ascending, each once) have `values`; all other
/// elements are absent, which counts as zero. Or a matrix of `length` rows of `width` elements: the rows at
/// `indices` lie one after another in `values`.
template <Element T>
struct SparseVector {
  std::uint64_t length = 0;                 ///< elements, or rows, with the absent ones
  std::vector<std::uint64_t> indices = {};  ///< ascending, each once
  std::vector<T> values = {};               ///< `width` of them for each index
  std::uint64_t width = 1;                  ///< elements of a row

  /// Whether all members are equal.
  bool operator==(const SparseVector&) const = default;
};

/// The ranks must agree on all of it.
struct SparseOptions {
  /// Ranks that exchange with each other in each layer of the butterfly; their product is the number of
  /// ranks. Empty: the largest divisors up to 8, the largest first.
  std::vector<int> degrees = {};
  /// A sum takes the dense form if the sparse form may need this share of its bytes. 0: always; 2: never.
  /// Default: 0.5; 0.1 where all ranks share memory.
  std::optional<double> dense_share = {};
  /// The algorithm of the dense form; empty: kolo's choice.
  std::string dense_algorithm = {};
};

/// Sums sparse vectors over the ranks of a communicator by a nested butterfly. The algorithm is Kylix (H.
/// Zhao, J. Canny: "Kylix: A Sparse Allreduce for Commodity Clusters", ICPP 2014): in each layer a rank
/// divides its share of the indices among the members of a group, and gets its part of their shares. Values
/// of equal indices are summed at once, so the layers below move less. Then everything is gathered back up.
/// Every block travels with a list or a bitmap of its indices, or with none where it has no gaps, whichever
/// takes fewest bytes.
///
/// Made and used by all ranks together, in the same order among their other collectives; thread-safe as
/// Communicator is. Errors are those of collectives; ranks that disagree on length, width, element type or
/// options all get a MismatchError that names one of them, after which the communicator is still usable.
class SparseAllReduce {
 public:
  /// Collective. Throws InvalidArgumentError where the degrees do not multiply to the number of ranks
  /// or there is no such algorithm.
  explicit SparseAllReduce(Communicator communicator, const SparseOptions& options = {});

  /// Collective. Every rank gets the sums at all indices that any rank has, with the same bits; an index
  /// whose sum is zero stays. Values are added in rank order, in pairs of neighbours, then of pairs: the same
  /// data gives the same bits as long as degrees and form are the same. Throws InvalidArgumentError, before
  /// any byte moves, for indices that are not ascending, occur twice or are not below `length`, and where
  /// `values` does not hold `width` elements, at least one, for each of them.
  template <Element T>
  SparseVector<T> sum(const SparseVector<T>& mine) {
    auto [indices, bytes] = sum(mine.length, mine.indices, mine.values, mine.width);
    SparseVector<T> result{mine.length, std::move(indices), {}, mine.width};
    result.values.resize(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(result.values.data(), bytes.data(), bytes.size());
    return result;
  }
  /// The same for element types known at run time; the second part of the result holds the elements.
  std::pair<std::vector<std::uint64_t>, std::vector<std::byte>> sum(std::uint64_t length,
                                                                    std::span<const std::uint64_t> indices,
                                                                    ConstBuffer values,
                                                                    std::uint64_t width = 1);

  /// Ranks that exchange with each other in each layer.
  const std::vector<int>& degrees() const noexcept { return degrees_; }

 private:
  Communicator communicator_;
  std::vector<int> degrees_;
  std::vector<Communicator> groups_;  ///< of each layer, the one that this rank is in
  double dense_share_;
  std::string dense_algorithm_;
};

}  // namespace kolo
