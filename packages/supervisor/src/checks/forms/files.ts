import {
  ArchiveQuery,
  ContentQuery,
  ListQuery,
  MakeDirectory,
  MoveFile,
  RemoveQuery,
  SearchQuery,
  StatQuery,
  WatchQuery,
  WriteFiles,
  WriteQuery,
} from "@berth/protocol/files"
import { formOf } from "@berth/protocol/form-of"

export const contentQuery = formOf(ContentQuery)
export const writeQuery = formOf(WriteQuery)
export const listQuery = formOf(ListQuery)
export const statQuery = formOf(StatQuery)
export const removeQuery = formOf(RemoveQuery)
export const searchQuery = formOf(SearchQuery)
export const archiveQuery = formOf(ArchiveQuery)
export const watchQuery = formOf(WatchQuery)
export const writeFiles = formOf(WriteFiles)
export const makeDirectory = formOf(MakeDirectory)
export const moveFile = formOf(MoveFile)
