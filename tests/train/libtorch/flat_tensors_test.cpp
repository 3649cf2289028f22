// FlatTensors: views have the layout of their tensors, lie side by side, and are leaves of their own.
#include <gtest/gtest.h>
#include <torch/serialize/archive.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kolo/arena.hpp"
#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "train/support/models.hpp"

namespace kolo::test::libtorch {
namespace {

std::vector<NamedTensor> some_tensors() {
  return {{"weight", numbers(4, 6, 1).requires_grad_()},
          {"image", at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
          {"empty", at::empty({0, 3})},
          {"scalar", at::full({}, 7.0)}};
}

TEST(FlatTensors, ViewsLieSideBySideWithTheLayoutOfTheirTensors) {
  const auto tensors = some_tensors();
  const FlatTensors flat(tensors);
  EXPECT_EQ(flat.count(), 24u + 120u + 0u + 1u);
  EXPECT_EQ(flat.bytes(), 4 * flat.count());
  EXPECT_TRUE(is_shared(flat.flat()));
  EXPECT_TRUE(at::equal(flat.flat(), at::zeros({145})));
  pack(tensors, {&flat, 1});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor view = flat.view(i);
    EXPECT_TRUE(at::equal(view, tensors[i].tensor)) << tensors[i].name;
    EXPECT_EQ(view.strides(), tensors[i].tensor.strides());
    EXPECT_TRUE(view.is_leaf() && !view.is_view() && !view.requires_grad());
    EXPECT_EQ(view.storage().nbytes(), view.nbytes()) << "saving one tensor writes its whole storage";
  }
  EXPECT_EQ(flat.parts()[1].shape, (std::vector<std::int64_t>{2, 4, 5, 3})) << "in memory's order";
  EXPECT_EQ(flat.parts()[3].offset, 144u);
  flat.flat().mul_(2);
  const std::vector<NamedTensor> other = some_tensors();
  unpack({&flat, 1}, other);
  EXPECT_TRUE(at::equal(other[1].tensor, tensors[1].tensor * 2));
}

TEST(FlatTensors, HaveOneTypeAndSomeTensors) {
  const std::vector<NamedTensor> mixed{
      {"a", at::ones({2})}, {"b", at::ones({3}, at::kDouble)}, {"c", at::ones({4})}};
  EXPECT_THROW(FlatTensors(std::span<const NamedTensor>()), InvalidArgumentError);
  try {
    FlatTensors flat(mixed);
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("'b'"), std::string::npos) << error.what();
  }
  const std::vector<FlatTensors> flats = flats_by_type(mixed);
  ASSERT_EQ(flats.size(), 2u);
  EXPECT_EQ(flats[0].member(1), 2u);
  EXPECT_EQ(flats[1].member(0), 1u);
}

TEST(FlatTensors, PackAllOrNothing) {
  auto tensors = some_tensors();
  const FlatTensors flat(tensors);
  tensors[3].tensor = tensors[3].tensor.to(at::kDouble);
  EXPECT_THROW(pack(tensors, {&flat, 1}), InvalidArgumentError);
  EXPECT_TRUE(at::equal(flat.flat(), at::zeros({145})));
}

TEST(FlatTensors, AdoptKeepsTheObjectAndItsValues) {
  auto tensors = some_tensors();
  FlatTensors flat(tensors);
  const at::Tensor weight = tensors[0].tensor, before = weight.detach().clone();
  for (std::size_t i = 0; i < tensors.size(); ++i) flat.adopt(i, tensors[i].tensor);
  EXPECT_TRUE(flat.holds(weight) && flat.holds(tensors[1].tensor));
  EXPECT_TRUE(at::equal(weight, before) && weight.requires_grad());
  flat.view(0).fill_(3);
  EXPECT_TRUE(at::equal(weight, at::full({4, 6}, 3.0)));
  EXPECT_FALSE(flat.holds(at::ones({4, 6})));

  const std::size_t blocks = SharedArena::instance().usage().blocks;
  flat.release();
  EXPECT_FALSE(flat.is_provided());
  EXPECT_EQ(SharedArena::instance().usage().blocks, blocks - 1);
  EXPECT_EQ(weight.storage().data_ptr().get(), nullptr);
  flat.provide();
  flat.view(0).fill_(5);
  EXPECT_TRUE(at::equal(weight, at::full({4, 6}, 5.0)));
  EXPECT_TRUE(flat.holds(weight));
}

TEST(FlatTensors, RangesOverlapParts) {
  const auto tensors = some_tensors();
  const FlatTensors flat(tensors);
  pack(tensors, {&flat, 1});
  const Slice range{20, 30};
  EXPECT_EQ(flat.overlap(0, range), (Slice{20, 4}));
  EXPECT_EQ(flat.overlap(1, range), (Slice{24, 26}));
  EXPECT_EQ(flat.overlap(3, range).length, 0);
  const FlatTensors part = flat.within(range);
  EXPECT_TRUE(at::equal(part.flat(), flat.flat().slice(0, 20, 50)));
  EXPECT_EQ(part.view(0).sizes(), at::IntArrayRef({4, 1}));
  EXPECT_EQ(part.view(3).sizes(), at::IntArrayRef({0}));
  EXPECT_TRUE(at::equal(part.view(0).flatten(), tensors[0].tensor.detach().flatten().slice(0, 20)));
  FlatTensors other = part.alike(at::kDouble);
  EXPECT_FALSE(other.is_provided());
  other.provide();
  EXPECT_EQ(other.count(), 30u);
  EXPECT_EQ(other.bytes(), 240u);
  EXPECT_EQ(other.view(0).scalar_type(), at::kDouble);
  EXPECT_NE(other.buffer().data, part.buffer().data);
}

TEST(FlatTensors, AdoptRoundsToTheirType) {
  const std::vector<NamedTensor> tensors{{"a", at::full({3}, 1.001).requires_grad_()}};
  tensors[0].tensor.mutable_grad() = at::ones({3});
  FlatTensors flat(tensors, at::kBFloat16);
  flat.adopt(0, tensors[0].tensor);
  EXPECT_EQ(tensors[0].tensor.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(tensors[0].tensor, at::ones({3}, at::kBFloat16)));
  EXPECT_TRUE(tensors[0].tensor.requires_grad() && !tensors[0].tensor.grad().defined());
}

template <typename Set>
void expect_seen(at::ScalarType type, const Set& set) {
  const std::vector<NamedTensor> tensors{{"a", at::ones({5}, type)}, {"b", at::ones({3}, type)}};
  const FlatTensors flat(tensors);
  pack(tensors, {&flat, 1});
  EXPECT_TRUE(are_finite({&flat, 1})) << c10::toString(type);
  set(flat.view(1)[2]);
  EXPECT_FALSE(are_finite({&flat, 1})) << c10::toString(type);
}

TEST(FlatTensors, FindWhatIsNotFinite) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    expect_seen(type, [](at::Tensor value) { value.fill_(-std::numeric_limits<double>::infinity()); });
    expect_seen(type, [](at::Tensor value) { value.fill_(std::nan("")); });
  }
  expect_seen(at::kComplexFloat, [](at::Tensor value) { at::view_as_real(value)[1].fill_(std::nan("")); });
}

TEST(FlatTensors, ComeBackFromAnArchive) {
  const auto tensors = some_tensors();
  const auto saved = flats_by_type(tensors);
  pack(tensors, saved);
  torch::serialize::OutputArchive out;
  save(saved, out, "values");
  std::stringstream bytes;
  out.save_to(bytes);
  torch::serialize::InputArchive in;
  in.load_from(bytes);
  auto contiguous = tensors;  // the archive does not depend on the layout
  contiguous[1].tensor = tensors[1].tensor.contiguous();
  const auto loaded = flats_by_type(contiguous);
  load(loaded, in, "values");
  EXPECT_TRUE(at::equal(loaded[0].view(1), tensors[1].tensor));
  EXPECT_THROW(load(flats_by_type(std::span(tensors).first(1)), in, "values"), std::runtime_error);
}

}  // namespace
}  // namespace kolo::test::libtorch
