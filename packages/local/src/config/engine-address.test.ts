import { describe, expect, it } from "vitest"
import { parseEngineAddress } from "./engine-address.ts"

describe("parseEngineAddress", () => {
  it.each([
    ["unix:///var/run/docker.sock", { socketPath: "/var/run/docker.sock" }],
    ["tcp://127.0.0.1:2376", { host: "127.0.0.1", port: 2376 }],
    ["tcp://localhost", { host: "localhost", port: 2375 }],
    ["tcp://[::1]:2375", { host: "::1", port: 2375 }],
    ["tcp://localhost:80/", { host: "localhost", port: 80 }],
    ["http://localhost:80", undefined],
    ["unix://", undefined],
    ["unix://relative.sock", undefined],
    ["ssh://me@host", undefined],
    ["npipe:////./pipe/docker_engine", undefined],
    ["tcp://host:notaport", undefined],
    ["tcp://", undefined],
    ["nonsense", undefined],
    ["", undefined],
  ])("%j → %j", (dockerHost, address) => {
    expect(parseEngineAddress(dockerHost)).toEqual(address)
  })
})
