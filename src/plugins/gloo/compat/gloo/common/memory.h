/* Gloo's headers of its TCP transport include this one, which packages leave out. It is looked for last, so an installed one
 * wins. Nothing here is made, moved or ended by this side: only sizes count. The one that is kept by value at the end of a
 * class of Gloo's has more room than it needs; the weak one lies among other members and is what it is in Gloo. */
#ifndef PLUGINS_GLOO_MEMORY_H
#define PLUGINS_GLOO_MEMORY_H
#include <memory>

namespace gloo {

template <typename T> class NonOwningPtr;

template <typename T> class ShareableNonOwningPtr {
public:
    ShareableNonOwningPtr(const ShareableNonOwningPtr &) = delete;
    ~ShareableNonOwningPtr();

private:
    alignas(16) char room_[256];
};

template <typename T> class WeakNonOwningPtr {
public:
    WeakNonOwningPtr(const ShareableNonOwningPtr<T> &from);

private:
    std::weak_ptr<T> ptr_;
};

} // namespace gloo
#endif
