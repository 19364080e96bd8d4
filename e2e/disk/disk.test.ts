import { sampled } from "@berth/testing/sampled"
import { BACKENDS, describeOn } from "../backends.ts"
import { describeFullDisk } from "./suite.ts"

describeOn(
  sampled("backends with a full disk", BACKENDS, 1),
  "a disk without a free block and a free inode",
  describeFullDisk,
)
