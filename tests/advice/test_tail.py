"""The script's record is read while it grows: each line once, whole lines only, and no other process's."""

from pipebench.advise.tail import Tail
from pipebench.watch.record.lines import Moment, NewStage, ProcessStarted, StageName
from pipebench.watch.record.record_file import encoded


def test_each_line_of_the_script_comes_once(tmp_path):
    tail = Tail(tmp_path)
    assert tail.new() == []
    worker, script = tmp_path / "10-1.spans", tmp_path / "20-1.spans"
    worker.write_bytes(encoded(ProcessStarted(10, "worker", 0), Moment("end", 1)))
    named = NewStage(0, StageName("getitem", "fetch"))
    script.write_bytes(encoded(named))
    assert tail.new() == []
    with script.open("ab") as file:
        file.write(encoded(ProcessStarted(20, "script", 0)))
        file.flush()
        assert tail.new() == [named, ProcessStarted(20, "script", 0)]
        whole = encoded(Moment("warm", 5), Moment("stop", 7))
        file.write(whole[:-4])
        file.flush()
        assert tail.new() == [Moment("warm", 5)]
        file.write(whole[-4:] + b"no line\n")
        file.flush()
        assert tail.new() == [Moment("stop", 7)] and tail.new() == []
