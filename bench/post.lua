-- wrk script: posts the bodies of a file (one JSON document a line) in turn, and reports as one JSON line.
-- With a second argument, each request has a connection of its own.
local requests, turn = {}, 0

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  if args[2] then headers["Connection"] = "close" end
  for body in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, headers, body)
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%.0f,"p99_us":%.0f,' ..
    '"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
