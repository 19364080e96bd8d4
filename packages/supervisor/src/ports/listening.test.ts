import { describe, expect, it } from "vitest"
import { portsOf } from "./list.ts"
import { parseListening } from "./listening.ts"

const HEAD =
  "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
const row = (local: string, state: string, inode: number) =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  1000        0 ${inode} 1 0000000000000000 100 0 0 10 0\n`

const only = (local: string) => parseListening(HEAD + row(local, "0A", 7))[0]

describe("the kernel's table of sockets", () => {
  it("tells listening sockets from connected ones", () => {
    const table = HEAD + row("0100007F:0BB8", "0A", 11) + row("0100007F:0BB8", "01", 12)
    expect(parseListening(table)).toEqual([{ port: 3000, address: "127.0.0.1", inode: "11" }])
    expect(parseListening("")).toEqual([])
  })

  it.each([
    ["00000000:0050", "0.0.0.0", 80],
    ["0101A8C0:FFFF", "192.168.1.1", 65_535],
    ["00000000000000000000000000000000:0050", "::", 80],
    ["00000000000000000000000001000000:1F90", "::1", 8080],
    ["0000000000000000FFFF00000100007F:1F90", "::ffff:127.0.0.1", 8080],
    ["B80D0120000000000000000001000000:1F90", "2001:db8::1", 8080],
    ["000080FE00000000FF005450B0A1D4FE:1F90", "fe80::5054:ff:fed4:a1b0", 8080],
    ["B80D0120010000000100000001000000:1F90", "2001:db8:0:1:0:1:0:1", 8080],
  ])("reads %s as %s", (local, address, port) => {
    expect(only(local)).toMatchObject({ address, port })
  })

  it("becomes one entry for each port, with the process that has it open", () => {
    const sockets = [
      { port: 90, address: "::", inode: "1" },
      { port: 80, address: "0.0.0.0", inode: "2" },
      { port: 80, address: "::", inode: "3" },
    ]
    const process = { pid: 5, name: "web" }
    expect(portsOf(sockets, new Map([["3", process]]))).toEqual([
      { port: 80, addresses: ["0.0.0.0", "::"], process },
      { port: 90, addresses: ["::"], process: null },
    ])
  })
})
