// A vector of a few plain elements, which it keeps in itself: making one takes no memory elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

namespace ferry {

/// Used as std::vector is, and grows as it does beyond `kInPlace` elements. A moved-from one is
/// empty.
template <typename T, std::size_t kInPlace>
class ShortVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  ShortVector() = default;
  ShortVector(std::initializer_list<T> elements) : ShortVector(elements.begin(), elements.end()) {}
  template <std::forward_iterator Iterator>
  ShortVector(Iterator first, Iterator last) {
    assign(first, last);
  }

  ShortVector(const ShortVector& other) : ShortVector(other.begin(), other.end()) {}
  ShortVector(ShortVector&& other) noexcept { take(other); }
  ShortVector& operator=(const ShortVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  ShortVector& operator=(ShortVector&& other) noexcept {
    if (this == &other) return *this;
    free();
    take(other);
    return *this;
  }
  ~ShortVector() { free(); }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T* data() { return is_near() ? near_.data() : far_; }
  const T* data() const { return is_near() ? near_.data() : far_; }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }

  /// Requires: as std::vector.
  T& operator[](std::size_t at) { return data()[at]; }
  const T& operator[](std::size_t at) const { return data()[at]; }
  T& front() { return *begin(); }
  const T& front() const { return *begin(); }
  T& back() { return end()[-1]; }
  const T& back() const { return end()[-1]; }

  void clear() { size_ = 0; }
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    const std::size_t capacity = std::max(count, std::size_t{2} * capacity_);
    T* const larger = new T[capacity];
    std::copy(begin(), end(), larger);
    free();
    far_ = larger;
    capacity_ = static_cast<std::uint32_t>(capacity);
  }
  void push_back(T element) {
    reserve(size_ + 1);
    data()[size_++] = element;
  }
  void pop_back() { --size_; }

  /// The elements may not be this vector's own.
  template <std::forward_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    clear();
    insert(end(), first, last);
  }
  template <std::forward_iterator Iterator>
  iterator insert(const_iterator before, Iterator first, Iterator last) {
    const auto at = before - begin();
    const auto count = static_cast<std::size_t>(std::distance(first, last));
    reserve(size_ + count);
    const iterator place = begin() + at;
    std::copy_backward(place, end(), end() + count);
    std::copy(first, last, place);
    size_ += static_cast<std::uint32_t>(count);
    return place;
  }
  iterator erase(const_iterator at) { return erase(at, at + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const iterator place = begin() + (first - begin());
    const iterator kept_end = std::copy(begin() + (last - begin()), end(), place);
    size_ = static_cast<std::uint32_t>(kept_end - begin());
    return place;
  }

  bool operator==(const ShortVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  bool is_near() const { return capacity_ == kInPlace; }
  void free() {
    if (!is_near()) delete[] far_;
  }
  /// Requires: this one has nothing to free.
  void take(ShortVector& other) {
    if (other.is_near()) {
      std::construct_at(&near_, other.near_);
    } else {
      far_ = other.far_;
    }
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, kInPlace);
  }

  // A plan has some hundred thousand of these, and is written and read faster for their being
  // small.
  union {
    std::array<T, kInPlace> near_ = {};
    T* far_;  // where there is room for more
  };
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = kInPlace;
};

/// As of a std::vector: how many were erased.
template <typename T, std::size_t kInPlace, typename Predicate>
std::size_t erase_if(ShortVector<T, kInPlace>& elements, Predicate predicate) {
  const auto kept_end = std::remove_if(elements.begin(), elements.end(), predicate);
  const auto erased = static_cast<std::size_t>(elements.end() - kept_end);
  elements.erase(kept_end, elements.end());
  return erased;
}

template <typename T, std::size_t kInPlace>
std::size_t erase(ShortVector<T, kInPlace>& elements, const T& element) {
  return erase_if(elements, [&](const T& other) { return other == element; });
}

}  // namespace ferry
