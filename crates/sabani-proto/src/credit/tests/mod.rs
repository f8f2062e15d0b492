mod granter;
mod model;
mod network;
mod pieces;
