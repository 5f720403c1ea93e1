from threadpoolctl import threadpool_info

from bayes_cpt.threads import one_blas_thread


def blas_threads() -> set[int]:
    return {own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"}


def test_linear_algebra_is_done_in_one_thread_and_in_as_many_as_before_after_it() -> None:
    before = blas_threads()
    assert one_blas_thread(blas_threads)() == {1}
    assert blas_threads() == before
