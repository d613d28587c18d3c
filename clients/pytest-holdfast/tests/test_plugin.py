"""Tests of the fixtures."""


def test_each_test_starts_with_the_same_state(pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def holdfast_options():
            return {"freeze_time": "2026-01-31T12:00:00Z"}

        @pytest.fixture(scope="session")
        def holdfast_setup():
            return lambda server: server.request("POST", "/projects", {"name": "first"})
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("attempt", range(3))
        def test_state(holdfast, holdfast_server, attempt):
            assert holdfast is holdfast_server
            names = [project["name"] for project in holdfast.request("GET", "/projects").json()]
            assert names == ["first"]
            created = holdfast.request("POST", "/projects", {"name": "second"}).json()
            assert (created["id"], created["created_at"]) == (2, "2026-01-31T12:00:00.000Z")

        @pytest.mark.holdfast(faults="GET /user 500", time="2027-01-01T00:00:00Z")
        def test_marker(holdfast):
            assert holdfast.request("GET", "/user").status == 500
            assert holdfast.clock().time.year == 2027

        def test_after_marker(holdfast):
            assert holdfast.request("GET", "/user").status == 200
            assert holdfast.clock().time.year == 2026

        @pytest.mark.holdfast(["GET /user 500", "GET /version 500"], "2027-01-01T00:00:00Z")
        class TestMarkers:
            @pytest.mark.holdfast("GET /user 502", time="2028-01-01T00:00:00Z")
            def test_of_test_comes_first(self, holdfast):
                assert holdfast.request("GET", "/user").status == 502
                assert holdfast.request("GET", "/version").status == 500
                assert holdfast.clock().time.year == 2028

            @pytest.mark.holdfast(faults=["GET /version 502"])
            def test_without_time_uses_that_of_class(self, holdfast):
                assert holdfast.request("GET", "/version").status == 502
                assert holdfast.clock().time.year == 2027
        """
    )
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=7)
