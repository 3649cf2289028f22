#include "tensor/ring_shift.hpp"

#include <utility>

#include "kolo/train/tensor.hpp"
#include "ranks/wait_all.hpp"

namespace kolo::train {

RingShift::RingShift(Communicator& group, at::Tensor sent, at::Tensor received, int tag)
    : sent_(std::move(sent)), received_(std::move(received)) {
  const int size = group.size(), next = (group.rank() + 1) % size, before = (group.rank() + size - 1) % size;
  works_.reserve(2);
  if (received_.numel() > 0) works_.push_back(group.recv_async(buffer_of(received_), before, tag));
  if (sent_.numel() > 0) works_.push_back(group.send_async(buffer_of(sent_), next, tag));
}

RingShift::~RingShift() {
  try {
    wait_all(works_);
  } catch (...) {  // a caller that needs the tensor has called wait()
  }
}

at::Tensor RingShift::wait() {
  wait_all(works_);
  return received_;
}

}  // namespace kolo::train
